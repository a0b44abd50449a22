// The state of the page: selected stall, selected part, and view. The fragment of the URL contains the whole state.

const articles = [...document.querySelectorAll("article")];
const explorer = byID("explorer");
/** Decompressed profiles by the number of their stall. */
const profiles = new Map();
const standard = { stall: "", view: "flame", q: "", threads: "", group: "", invert: "", fold: "1", range: "", at: "", zoom: "" };
let state = { ...standard };
let profile = null;
let chosen = null;
let tree = null;
let found = null;

const flame = new Flame({ zoom: (node) => change({ zoom: node > 0 ? String(node) : "" }) });
const treeView = new CallTreeView({ zoom: (node) => change({ zoom: String(node), view: "flame" }) });
const table = new FunctionTable({ search: (text) => change({ q: text }) });
const timeline = new Timeline({
  sample: (track, sample) => change({ at: `${track}.${sample}` }),
  range: (range) => change({ range: range ? range.map((time) => Math.round(time)).join("-") : "", zoom: "" }),
});

function readFragment() {
  const read = { ...standard };
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) if (key in read) read[key] = value;
  return read;
}

function writeFragment() {
  const parts = new URLSearchParams();
  for (const [key, value] of Object.entries(state)) {
    if (value !== standard[key] && !(key === "stall" && articles.length === 1)) parts.set(key, value);
  }
  const text = parts.toString();
  history.replaceState(null, "", text === "" ? location.pathname + location.search : `#${text}`);
}

/** Whether the calls of `state` are in the order of time. Other threads have one sample each. */
const isByTime = (state) => state.view === "time" && state.threads !== "others";

/** Changes the state to the values of `wanted`, whose keys are those of {@link standard}. */
async function change(wanted) {
  const before = state;
  state = { ...state, ...wanted };
  // The number of a zoomed node is valid only for its tree.
  const isOther = ["threads", "group", "invert", "fold", "range", "stall"].some((key) => state[key] !== before[key]) || isByTime(state) !== isByTime(before);
  if (isOther && !("zoom" in wanted)) state.zoom = "";
  writeFragment();
  await show(before);
}

const chosenArticle = () => Math.max(0, articles.findIndex((article) => article.dataset.key === state.stall));

async function profileOf(number) {
  if (!profiles.has(number)) profiles.set(number, parseProfile(await decompressed(fromBase64(byID(`profile-${number}`).textContent))));
  return profiles.get(number);
}

async function show(before) {
  const number = chosenArticle();
  articles.forEach((article, place) => article.classList.toggle("chosen", place === number));
  for (const link of document.querySelectorAll("#stalls a")) {
    if (Number(link.dataset.number) === number) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
  let isNew = before === null || before.stall !== state.stall;
  if (isNew) {
    articles[number].querySelector(".explorer-place").append(explorer);
    explorer.hidden = false;
    byID("problem").hidden = true;
    try {
      profile = await profileOf(number);
    } catch (problem) {
      byID("problem").textContent = `Cannot show the samples: ${problem.message}. The report is complete.`;
      byID("problem").hidden = false;
      throw problem;
    }
    fillThreads();
    timeline.show(profile);
    showLegend();
  }
  const views = { time: "flame", flame: "flame", tree: "tree", functions: "functions" };
  if (!(state.view in views)) state.view = "flame";
  isNew ||= ["threads", "group", "invert", "fold", "range"].some((key) => state[key] !== before[key]) || isByTime(state) !== isByTime(before);
  const range = state.range.split("-").map(Number);
  const choice = {
    threads: state.threads, group: state.group, invert: state.invert === "1", fold: state.fold === "1",
    range: range.length === 2 && range.every(Number.isFinite) ? range : null,
  };
  if (isNew) {
    chosen = chosenGroups(profile, choice);
    tree = isByTime(state) ? timeTree(profile, chosen, choice) : callTree(profile, chosen, choice);
    flame.show(profile, tree, chosen.unit, profile.culprit);
    timeline.setRange(choice.range);
  }
  const isSearch = isNew || state.q !== before.q;
  if (isSearch) found = foundFunctions(profile, state.q);
  const shown = views[state.view];
  for (const id of Object.values(views)) byID(id).hidden = id !== shown;
  byID("flame-keys").hidden = shown !== "flame";
  const isView = isSearch || before.view !== state.view;
  const zoom = Math.min(tree.parent.length - 1, Math.max(0, Number(state.zoom) || 0));
  if (shown === "flame") {
    flame.found = found;
    if (isView || flame.zoomed !== zoom) flame.zoom(zoom);
  } else if (isView && state.view === "tree") {
    treeView.show(profile, tree, chosen.unit, profile.culprit, found);
  } else if (isView) {
    table.show(profile, functionTimes(profile, chosen), tree.total[0] || 1, chosen.unit, found);
  }
  showTools();
  showPath(zoom);
  showSample();
  showSummary(choice);
}

function fillThreads() {
  const list = byID("threads");
  const options = [element("option", { value: "", text: profile.tracks.length > 1 ? `all ${profile.tracks.length} workers` : "the stalled thread" })];
  if (profile.tracks.length > 1) {
    profile.tracks.forEach((track, number) => options.push(element("option", { value: String(number), text: track.thread })));
  }
  if (profile.others.length > 0) options.push(element("option", { value: "others", text: `${counted(profile.others.length, "other thread")}, one sample each` }));
  list.replaceChildren(...options);
  byID("threads-label").hidden = options.length === 1;
}

function showTools() {
  for (const button of document.querySelectorAll("[data-view]")) {
    button.setAttribute("aria-pressed", button.dataset.view === state.view && (button.dataset.invert ?? state.invert) === state.invert);
  }
  byID("invert").hidden = state.view !== "tree";
  byID("group").disabled = isByTime(state);
  byID("invert").setAttribute("aria-pressed", state.invert === "1");
  byID("fold").setAttribute("aria-pressed", state.fold === "1");
  byID("threads").value = state.threads;
  byID("group").value = state.group;
  if (byID("search").value !== state.q) byID("search").value = state.q;
}

/** Shows the path to the zoomed node. Each caller is a button. */
function showPath(zoom) {
  const path = byID("path");
  const nodes = [];
  for (let at = zoom; at >= 0; at = tree.parent[at]) nodes.unshift(at);
  path.hidden = zoom === 0 || byID("flame").hidden;
  const shown = nodes.length > 6 ? [...nodes.slice(0, 2), -1, ...nodes.slice(-3)] : nodes;
  path.replaceChildren(...shown.map((at) => (at < 0
    ? element("span", { text: `… ${nodes.length - 5}` })
    : element("button", { type: "button", text: middle(nameOf(profile, tree, at), 40), "aria-current": at === zoom ? "true" : undefined, onclick: () => change({ zoom: at > 0 ? String(at) : "" }) }))));
}

function showSummary(choice) {
  const samples = chosen.groups.reduce((sum, group) => sum + group.count, 0);
  const whole = tree.total[0];
  const parts = [chosen.unit === "time" ? `${counted(samples, "sample")}, ${duration(whole)}` : `${counted(samples, "other thread")}, one sample each`];
  if (choice.range) parts.push(`from ${duration(choice.range[0])} to ${duration(choice.range[1])}`);
  if (found) parts.push(`found: ${percent(foundTotal(profile, chosen, found) / (whole || 1))}, ${amount(foundTotal(profile, chosen, found), chosen.unit)}`);
  byID("summary").textContent = parts.join("; ");
}

function showSample() {
  const [track, sample] = state.at.split(".").map(Number);
  const isThere = state.at !== "" && profile.tracks[track] && sample >= 0 && sample < profile.tracks[track].count;
  byID("sample").hidden = !isThere;
  timeline.choose(isThere ? { track, sample } : null);
  if (!isThere) return;
  const of = profile.tracks[track];
  byID("sample-title").textContent = sampleTitle(of, sample);
  byID("sample-text").textContent = timeline.lines({ track, sample }).filter((_, line) => line !== 1).join(", ");
  byID("sample-stack").replaceChildren(...stackOf(profile, of.node[sample]).map((node) => {
    const frame = profile.nodes.frame[node];
    const name = profile.frames.function[frame];
    const kind = profile.names[name] === profile.culprit ? "own culprit" : profile.owners[name];
    return element("li", { class: kind }, element("code", { text: profile.names[name] }), " ", element("span", { text: placeOf(profile, frame), title: profile.frames.file[frame] >= 0 ? `${profile.files[profile.frames.file[frame]]}:${profile.frames.line[frame]}` : undefined }));
  }));
  byID("previous").disabled = sample === 0;
  byID("next").disabled = sample === of.count - 1;
}

/** Shows the legend of the colours in use. */
function showLegend() {
  const kinds = new Map(profile.stateKinds.map((kind) => [STATE_COLOURS[kind] ?? "unknown", STATES[kind] ?? kind]));
  byID("legend").replaceChildren(...[...kinds].map(([colour, text]) => element("li", {}, element("span", { class: `key state-${colour}`, "aria-hidden": "true" }), text)));
  const owners = Object.keys(OWNERS).filter((owner) => (owner === "culprit" ? profile.culprit !== undefined : profile.owners.includes(owner)));
  byID("owners").replaceChildren(...owners.map((owner) => element("li", {}, element("span", { class: `key fill-${owner}`, "aria-hidden": "true" }), OWNERS[owner])));
}

function step(by) {
  const [track, sample] = state.at.split(".").map(Number);
  const to = Math.min(profile.tracks[track].count - 1, Math.max(0, sample + by));
  change({ at: `${track}.${to}` });
}

// MARK: themes

const themes = ["automatic", "light", "dark"];
let theme = "automatic";
try {
  theme = localStorage.getItem("culprit-theme") ?? theme;
} catch { /* A page opened from a file might have no storage. */ }

function showTheme() {
  if (!themes.includes(theme)) theme = "automatic";
  if (theme === "automatic") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  byID("theme").textContent = `Theme: ${theme}`;
  drawAgain();
}

function drawAgain() {
  flame.layOut();
  timeline.draw();
}

byID("theme").hidden = false;
byID("theme").addEventListener("click", () => {
  theme = themes[(themes.indexOf(theme) + 1) % themes.length];
  try {
    localStorage.setItem("culprit-theme", theme);
  } catch { /* The theme is not stored. */ }
  showTheme();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAgain);

// MARK: user actions

for (const button of document.querySelectorAll("[data-view]")) button.addEventListener("click", () => change({ view: button.dataset.view, invert: button.dataset.invert ?? state.invert }));
const toggle = (key) => change({ [key]: state[key] === "1" ? "" : "1" });
for (const id of ["invert", "fold"]) byID(id).addEventListener("click", () => toggle(id));
for (const id of ["threads", "group"]) byID(id).addEventListener("change", (event) => change({ [id]: event.target.value }));
// Sorts the table of problems by the clicked column. Numbers begin with the largest.
document.querySelectorAll("#problems th").forEach((head, column) => {
  const key = (row) => row.cells[column].dataset.key ?? row.cells[column].textContent;
  head.replaceChildren(element("button", {
    type: "button", text: head.textContent,
    onclick: () => {
      const body = head.closest("table").tBodies[0];
      const isUp = head.getAttribute("aria-sort") === "descending";
      for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", isUp ? "ascending" : "descending");
      body.append(...[...body.rows].sort((one, other) => (isUp ? 1 : -1) * key(one).localeCompare(key(other), "en", { numeric: true })));
    },
  }));
});
for (const article of articles) {
  const [button, text] = [article.querySelector(".copy"), article.querySelector(".markdown")];
  button.hidden = false;
  button.addEventListener("click", () => navigator.clipboard.writeText(text.textContent).then(
    () => { button.textContent = "Copied"; },
    // Without access to the clipboard, the text is shown for selection.
    () => { text.hidden = false; getSelection().selectAllChildren(text); },
  ));
}
for (const time of document.querySelectorAll("time")) {
  const date = new Date(time.dateTime);
  if (date.getTimezoneOffset() !== 0) time.append(` (${date.toLocaleString("sv")} local time)`);
}
byID("reset").addEventListener("click", () => change({ ...standard, stall: state.stall, view: state.view }));
byID("search").addEventListener("input", (event) => change({ q: event.target.value }));
byID("search").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || byID("flame").hidden) return;
  const node = flame.heaviestFound();
  if (node < 0) return;
  event.preventDefault();
  flame.box.focus();
  flame.walkTo(node);
});
byID("previous").addEventListener("click", () => step(-1));
byID("next").addEventListener("click", () => step(1));
byID("close").addEventListener("click", () => {
  change({ at: "" });
  byID("timeline-box").focus();
});
// Keys without modifiers act only in the explorer, and not in text fields.
explorer.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.target.matches("input, select")) return;
  if (event.key === "/") byID("search").focus();
  else if (event.key === "i") change({ view: state.view === "time" ? "flame" : state.view, invert: state.invert === "1" ? "" : "1" });
  else if (event.key === "f") toggle("fold");
  else return;
  event.preventDefault();
});
window.addEventListener("hashchange", () => {
  // The link to the answer is an anchor within the page, not a state.
  if (location.hash === "#main") return;
  const before = state;
  state = readFragment();
  show(before);
});
new ResizeObserver(drawAgain).observe(explorer);

document.documentElement.classList.add("scripted");
state = readFragment();
showTheme();
show(null).then(() => document.documentElement.classList.add("ready"));
