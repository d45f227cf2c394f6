# An image with kmdr and the locked versions of its dependencies. The digest of the base image has no default, so that each
# build states its base: docs/howto/container.md shows how to look it up.
ARG DIGEST
FROM python:3.12-slim@${DIGEST} AS build
WORKDIR /build
RUN python -m venv /opt/kmdr
COPY requirements-pip.lock requirements.lock ./
RUN /opt/kmdr/bin/python -m pip install --no-cache-dir --require-hashes -r requirements-pip.lock \
    && /opt/kmdr/bin/python -m pip install --no-cache-dir --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY datasets/registry.toml datasets/
COPY conf conf
COPY src src
RUN /opt/kmdr/bin/python -m pip install --no-cache-dir --no-deps --no-build-isolation .

FROM python:3.12-slim@${DIGEST}
COPY --from=build /opt/kmdr /opt/kmdr
RUN useradd --create-home --uid 1000 kmdr
USER kmdr
WORKDIR /home/kmdr
ENTRYPOINT ["/opt/kmdr/bin/kmdr"]
CMD ["--help"]
