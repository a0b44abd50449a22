// Formats numbers and names like the reports (Sources/Reports/Formatting.swift).

function percent(fraction) {
  const rounded = Math.round(Math.min(1, Math.max(0, fraction)) * 100);
  if (rounded === 0 && fraction > 0) return "<1 %";
  if (rounded === 100 && fraction < 1 - 1e-9) return ">99 %";
  return `${rounded} %`;
}

function duration(nanoseconds) {
  const seconds = nanoseconds / 1e9;
  if (seconds >= 360000) return `${Math.floor(seconds / 86400)} d`;
  if (seconds >= 3600) return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
  if (seconds >= 100) return `${Math.round(seconds)} s`;
  if (seconds >= 1) return `${seconds.toFixed(2)} s`;
  if (seconds >= 0.001 || seconds === 0) return `${Math.round(seconds * 1000)} ms`;
  return `${Math.round(seconds * 1e6)} µs`;
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

/** Formats `value` in `unit`. */
function amount(value, unit) {
  return unit === "time" ? duration(value) : counted(Math.round(value), "thread");
}

/**
 * Returns the location of `frame`, as in "Catalog.swift:24". Without a file, returns the module unless the
 * function's name contains it.
 */
function placeOf(profile, frame) {
  const { frames } = profile;
  if (frame < 0) return "";
  const file = frames.file[frame] >= 0 ? profile.files[frames.file[frame]] : "";
  const flags = frames.flags[frame];
  const name = profile.names[frames.function[frame]];
  const module = profile.modules[frames.function[frame]];
  const isNamed = name.startsWith(`${module}+0x`) || name === `a function of ${module}` || name.endsWith(` (${module})`);
  const place = file ? `${file.slice(file.lastIndexOf("/") + 1)}:${frames.line[frame]}` : isNamed ? "" : module;
  return [place, flags & 1 ? "inlined" : "", flags & 2 ? "awaits" : ""].filter((part) => part).join(", ");
}

/** Returns the name of a call tree node. */
function nameOf(profile, tree, node) {
  if (node === 0) return "all";
  const name = tree.function[node];
  return name < 0 ? tree.groupNames[-2 - name] : profile.names[name];
}

function ownerOf(profile, tree, node) {
  return tree.function[node] < 0 ? "nobody" : profile.owners[tree.function[node]];
}

/** Creates an element with attributes and children. Strings become text nodes and are never parsed as markup. */
function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children);
  return made;
}

const byID = (id) => document.getElementById(id);

/** Returns a theme colour, defined in the style sheet. */
function themeColour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const OWNERS = {
  culprit: "the culprit", own: "application code", entry: "entry point", dependency: "dependencies", system: "system", nobody: "unknown",
};

const STATES = {
  computing: "computing", inSystemCall: "waiting in a system call", inRestartedCall: "waiting in a system call", blocked: "waiting outside a system call",
  suspended: "suspended", enqueued: "enqueued", unobserved: "not observed", unknown: "unknown",
};

const STATE_COLOURS = {
  computing: "computing", inSystemCall: "waiting", inRestartedCall: "waiting", blocked: "blocked", suspended: "suspended", enqueued: "enqueued",
  unobserved: "unobserved", unknown: "unknown",
};

/** Sets the size of `canvas` in CSS pixels and returns its cleared drawing context. */
function sizedCanvas(canvas, width, height) {
  const scale = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * scale)), Math.max(1, Math.round(height * scale))];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/** Shortens `text` in the middle to fit `width`. */
function fittedText(context, text, width) {
  if (width < 24) return "";
  // Limits the text to about the number of narrow characters that could fit, so that long texts are not measured.
  const most = Math.floor(width / 3) + 2;
  let shown = text.length > most ? middle(text, most) : text;
  while (shown.length > 2 && context.measureText(shown).width > width) {
    const room = Math.floor((shown.length * width) / context.measureText(shown).width);
    shown = middle(text, Math.min(shown.length - 1, room));
  }
  return shown.length > 2 ? shown : "";
}

function middle(text, length) {
  if (text.length <= length) return text;
  const head = Math.ceil((length - 1) / 2);
  return `${text.slice(0, head)}…${text.slice(text.length - Math.max(0, length - 1 - head))}`;
}
