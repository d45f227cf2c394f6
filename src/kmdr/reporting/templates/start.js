"use strict";
// Before anything is painted: with scripts, views are shown one at a time, and an address chooses another than the first.
document.documentElement.classList.add("js");
if (location.hash.length > 1) document.documentElement.classList.add("addressed");
