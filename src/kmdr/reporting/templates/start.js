"use strict";
// Before anything is painted: with scripts, views are shown one at a time, and an address chooses another than the first.
document.documentElement.classList.add("js");
if (location.hash.length > 1) document.documentElement.classList.add("addressed");
// The folder of results, for commands: that of this page if it is on a disk, else "". A name that is not UTF-8 stays encoded.
const resultsFolder = () => {
  if (location.protocol !== "file:") return "";
  const encoded = location.pathname.split("/").slice(0, -2).join("/");
  let path = encoded;
  try {
    path = decodeURIComponent(encoded);
  } catch { /* bytes that are not UTF-8 */ }
  return /^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`;
};
// A field fires "input" and then "change", but some programs that fill in forms fire only the latter: act once on both.
const onChoice = (form, act) => {
  const done = new Map();
  const valueOf = (field) => (field.type === "checkbox" ? field.checked : field.value);
  form.addEventListener("input", ({ target }) => {
    done.set(target, valueOf(target));
    act(target);
  });
  form.addEventListener("change", ({ target }) => {
    const isDone = done.get(target) === valueOf(target);
    done.delete(target);
    if (!isDone) act(target);
  });
};
