// Call trees and times of functions, computed from the selected samples.

/** Maximum number of a node's children in its linked list. Further children are in the hash table. */
const LISTED = 8;

/** Maximum number of stacks in a tree in the order of time. */
const ORDERED = 50000;

/**
 * A hash table from pairs of numbers to numbers, with open addressing. A Map takes five times as long for millions
 * of pairs.
 */
class Pairs {
  constructor() {
    this.size = 0;
    this.grow(1 << 12);
  }

  /** Resizes the table. Each entry has three consecutive words: first, second, value. */
  grow(room) {
    const old = this.words;
    this.mask = room - 1;
    this.words = new Int32Array(room * 3).fill(-2);
    for (let at = 0; old && at < old.length; at += 3) {
      if (old[at] === -2) continue;
      const to = this.place(old[at], old[at + 1]);
      this.words[to] = old[at];
      this.words[to + 1] = old[at + 1];
      this.words[to + 2] = old[at + 2];
    }
  }

  place(first, second) {
    const { words, mask } = this;
    let hash = Math.imul(first, 0x9e3779b1) + Math.imul(second, 0x85ebca6b);
    hash = Math.imul(hash ^ (hash >>> 15), 0x2c1b3c6d);
    let at = (hash ^ (hash >>> 13)) & mask;
    while (words[at * 3] !== -2 && (words[at * 3] !== first || words[at * 3 + 1] !== second)) at = (at + 1) & mask;
    return at * 3;
  }

  /** Returns the number of the pair, which is set to `next` if the pair is new. */
  number(first, second, next) {
    const at = this.place(first, second);
    const { words } = this;
    if (words[at] !== -2) return words[at + 2];
    words[at] = first;
    words[at + 1] = second;
    words[at + 2] = next;
    if (++this.size * 2 > this.mask) this.grow((this.mask + 1) * 2);
    return next;
  }
}

/** A typed array that grows as values are pushed. */
class Growing {
  constructor(Type) {
    this.array = new Type(1 << 10);
    this.length = 0;
  }

  push(value) {
    if (this.length === this.array.length) {
      const larger = new this.array.constructor(this.length * 2);
      larger.set(this.array);
      this.array = larger;
    }
    this.array[this.length++] = value;
  }
}

/**
 * Returns the groups {name, self, count} of the samples selected by `choice`, and the unit of their values. `self`
 * contains the time or count of each node as the innermost one; `count` is the number of samples.
 *
 * `choice.threads`: "" for all, "others", or the number of a track; `choice.range`: [begin, end] or null;
 * `choice.group`: "", "thread", "task" or "state".
 */
function chosenGroups(profile, choice) {
  const groups = new Map();
  function group(name) {
    let found = groups.get(name);
    if (!found) {
      found = { name, self: new Float64Array(profile.nodes.parent.length), total: 0, count: 0 };
      groups.set(name, found);
    }
    return found;
  }
  const names = taskNames(profile);
  if (choice.threads === "others") {
    for (const other of profile.others) {
      if (other.node < 0) continue;
      const name = choice.group === "thread" ? other.thread : choice.group === "state" ? profile.states[other.state]
        : choice.group === "task" ? names(-1, other.node) : "";
      const found = group(name);
      found.self[other.node] += 1;
      found.total += 1;
      found.count += 1;
    }
    return { groups: [...groups.values()], unit: "threads" };
  }
  for (const track of chosenTracks(profile, choice)) {
    let name = null;
    let found = null;
    const fixed = choice.group === "" ? "" : choice.group === "thread" ? track.thread : null;
    chosenSamples(track, choice, (sample, weight) => {
      const wanted = fixed ?? (choice.group === "state" ? profile.states[track.state[sample]]
        : names(track.label[sample], track.node[sample]));
      if (found === null || wanted !== name) {
        name = wanted;
        found = group(name);
      }
      found.self[track.node[sample]] += weight;
      found.total += weight;
      if (track.ordinal[sample] > 0) found.count += 1;
    });
  }
  return { groups: [...groups.values()].sort((one, other) => other.total - one.total), unit: "time" };
}

function chosenTracks(profile, choice) {
  return profile.tracks.filter((_, number) => choice.threads === "" || Number(choice.threads) === number);
}

/** Calls `use(sample, weight)` for each sample of `track` with a stack in `choice.range`, in the order of time. */
function chosenSamples(track, choice, use) {
  const [from, to] = choice.range ?? [0, Infinity];
  for (let sample = 0; sample < track.count; sample++) {
    const begin = track.begin[sample];
    const end = track.end[sample];
    if (end < from || begin > to || track.node[sample] < 0) continue;
    let weight = track.weight[sample];
    if (begin < from || end > to) {
      if (end === begin) continue;
      weight *= (Math.min(end, to) - Math.max(begin, from)) / (end - begin);
    }
    use(sample, weight);
  }
}

/** Returns a function that names the task of a sample: by its label, or else by the task's first function. */
function taskNames(profile) {
  const roots = new Map();
  return (label, node) => {
    if (label >= 0) return profile.labels[label];
    if (!roots.has(node)) {
      const stack = stackOf(profile, node);
      const frame = profile.nodes.frame[stack[stack.length - 1]];
      const isTask = (profile.frames.flags[frame] & 2) !== 0;
      roots.set(node, isTask ? `task of ${profile.names[profile.frames.function[frame]]}` : "no task is known");
    }
    return roots.get(node);
  };
}

/**
 * Returns the call tree of functions. Node 0 is the root. The arrays are `parent`, `function` (of the profile; negative
 * for a group, whose name is in `groupNames`), `self`, `total`, `depth`, and `frame` (the place in the function with
 * the most time). `children(node)` returns the children sorted by total.
 *
 * `choice.invert`: callees are the parents of their callers. `choice.fold`: of consecutive library functions, only the
 * outermost one is shown.
 */
function callTree(profile, chosen, choice) {
  const { nodes, frames } = profile;
  const parent = new Growing(Int32Array);
  const functions = new Growing(Int32Array);
  const self = new Growing(Float64Array);
  const place = new Growing(Int32Array);
  const heaviest = new Growing(Float64Array);
  const firstChild = new Growing(Int32Array);
  const sibling = new Growing(Int32Array);
  const pairs = new Pairs();
  const groupNames = [];
  function node(above, name, frame) {
    // Most functions call few others. Their first children are in a linked list, which is fast; the others are in a
    // table.
    let child = above < 0 ? -1 : firstChild.array[above];
    let steps = 0;
    while (child >= 0 && functions.array[child] !== name) {
      child = sibling.array[child];
      steps++;
    }
    if (child >= 0) return child;
    const next = parent.length;
    const isListed = above >= 0 && steps < LISTED;
    if (above >= 0 && !isListed) {
      const found = pairs.number(above, name, next);
      if (found !== next) return found;
    }
    parent.push(above);
    functions.push(name);
    self.push(0);
    place.push(frame);
    heaviest.push(0);
    firstChild.push(-1);
    sibling.push(isListed ? firstChild.array[above] : -1);
    if (isListed) firstChild.array[above] = next;
    return next;
  }
  node(-1, -1, -1);
  const isShown = shownNodes(profile, choice.fold);
  for (const group of chosen.groups) {
    let root = 0;
    if (choice.group !== "" && group.name !== "") {
      groupNames.push(group.name);
      root = node(0, -1 - groupNames.length, -1);
    }
    if (choice.invert) {
      for (let leaf = 0; leaf < group.self.length; leaf++) {
        const weight = group.self[leaf];
        if (weight === 0) continue;
        let above = root;
        for (let at = leaf; at >= 0; at = nodes.parent[at]) {
          if (isShown[at] === 0) continue;
          const frame = nodes.frame[at];
          above = node(above, frames.function[frame], frame);
          if (weight > heaviest.array[above]) {
            heaviest.array[above] = weight;
            place.array[above] = frame;
          }
        }
        self.array[above] += weight;
      }
      continue;
    }
    // Parents precede their callees. Totals are summed upwards first, then nodes are created downwards.
    const total = group.self.slice();
    for (let at = total.length - 1; at >= 0; at--) {
      if (nodes.parent[at] >= 0) total[nodes.parent[at]] += total[at];
    }
    const made = new Int32Array(total.length);
    for (let at = 0; at < total.length; at++) {
      if (total[at] === 0) continue;
      const above = nodes.parent[at] < 0 ? root : made[nodes.parent[at]];
      const frame = nodes.frame[at];
      made[at] = isShown[at] === 0 ? above : node(above, frames.function[frame], frame);
      if (isShown[at] !== 0 && total[at] > heaviest.array[made[at]]) {
        heaviest.array[made[at]] = total[at];
        place.array[made[at]] = frame;
      }
      self.array[made[at]] += group.self[at];
    }
  }
  return ordered({
    parent: parent.array.slice(0, parent.length), function: functions.array.slice(0, parent.length),
    self: self.array.slice(0, parent.length), frame: place.array.slice(0, parent.length), groupNames,
  });
}

/**
 * Returns the call tree with the calls in the order of time, for each thread. Only neighbouring samples share a node. The
 * tree has at most {@link ORDERED} stacks; of more samples, each stands for its successors too.
 */
function timeTree(profile, chosen, choice) {
  const { nodes, frames } = profile;
  const parent = new Growing(Int32Array);
  const functions = new Growing(Int32Array);
  const self = new Growing(Float64Array);
  const place = new Growing(Int32Array);
  const groupNames = [];
  function node(above, name, frame) {
    parent.push(above);
    functions.push(name);
    self.push(0);
    place.push(frame);
    return parent.length - 1;
  }
  node(-1, -1, -1);
  const isShown = shownNodes(profile, choice.fold);
  const stride = Math.max(1, Math.ceil(chosen.groups.reduce((sum, group) => sum + group.count, 0) / ORDERED));
  const tracks = chosenTracks(profile, choice);
  for (const track of tracks) {
    let root = 0;
    if (tracks.length > 1) {
      groupNames.push(track.thread);
      root = node(0, -1 - groupNames.length, -1);
    }
    // The nodes of the last stack, the outermost first.
    const path = [];
    let count = 0;
    chosenSamples(track, choice, (sample, weight) => {
      if (count++ % stride === 0) {
        let depth = 0;
        for (const at of stackOf(profile, track.node[sample]).reverse()) {
          if (isShown[at] === 0) continue;
          const frame = nodes.frame[at];
          const name = frames.function[frame];
          if (depth >= path.length || functions.array[path[depth]] !== name) {
            const made = node(depth > 0 ? path[depth - 1] : root, name, frame);
            path.length = depth;
            path.push(made);
          }
          depth++;
        }
        path.length = depth;
      }
      self.array[path.length > 0 ? path[path.length - 1] : root] += weight;
    });
  }
  return ordered({
    parent: parent.array.slice(0, parent.length), function: functions.array.slice(0, parent.length),
    self: self.array.slice(0, parent.length), frame: place.array.slice(0, parent.length), groupNames,
  }, { isByTime: true });
}

/** Returns which nodes of the stacks are shown. With `fold`, only the outermost of consecutive library functions is. */
function shownNodes(profile, fold) {
  const { nodes, frames } = profile;
  const isShown = new Uint8Array(nodes.parent.length).fill(1);
  if (!fold) return isShown;
  const isOwn = profile.owners.map((owner) => (owner === "own" || owner === "entry" ? 1 : 0));
  for (let at = 0; at < isShown.length; at++) {
    const above = nodes.parent[at];
    const own = isOwn[frames.function[nodes.frame[at]]];
    isShown[at] = own || above < 0 || isOwn[frames.function[nodes.frame[above]]] ? 1 : 0;
  }
  return isShown;
}

/** Adds totals, depths and children to `tree`. Unless they are `isByTime`, children are sorted by total. */
function ordered(tree, { isByTime = false } = {}) {
  const count = tree.parent.length;
  const total = tree.self.slice();
  const depth = new Int32Array(count);
  const starts = new Int32Array(count + 1);
  for (let at = count - 1; at > 0; at--) {
    total[tree.parent[at]] += total[at];
    starts[tree.parent[at] + 1]++;
  }
  let depthMax = 0;
  for (let at = 1; at < count; at++) {
    depth[at] = depth[tree.parent[at]] + 1;
    if (depth[at] > depthMax) depthMax = depth[at];
  }
  for (let at = 0; at < count; at++) starts[at + 1] += starts[at];
  const next = starts.slice();
  const list = new Int32Array(Math.max(0, count - 1));
  for (let at = 1; at < count; at++) list[next[tree.parent[at]]++] = at;
  for (let at = 0; at < count && !isByTime; at++) sortByTotal(list, starts[at], starts[at + 1], total);
  return { ...tree, total, isByTime, depth, depthMax, children: (at) => list.subarray(starts[at], starts[at + 1]) };
}

/**
 * Sorts `list` from `begin` to `end` by descending total. Most nodes have few children, for which insertion sort is
 * fastest.
 */
function sortByTotal(list, begin, end, total) {
  if (end - begin > 24) {
    list.subarray(begin, end).sort((one, other) => total[other] - total[one] || one - other);
    return;
  }
  for (let next = begin + 1; next < end; next++) {
    const node = list[next];
    let at = next;
    while (at > begin && total[list[at - 1]] < total[node]) {
      list[at] = list[at - 1];
      at--;
    }
    list[at] = node;
  }
}

/** Returns the inclusive time (counted once per stack) and the self time of each function. */
function functionTimes(profile, chosen) {
  const { nodes, frames } = profile;
  const self = new Float64Array(profile.names.length);
  const total = new Float64Array(profile.names.length);
  // Whether the function also occurs further up the stack. Recursive calls count once.
  const recurs = new Uint8Array(nodes.parent.length);
  for (let at = 0; at < recurs.length; at++) {
    const name = frames.function[nodes.frame[at]];
    let up = nodes.parent[at];
    while (up >= 0 && frames.function[nodes.frame[up]] !== name) up = nodes.parent[up];
    recurs[at] = up >= 0 ? 1 : 0;
  }
  for (const group of chosen.groups) {
    const sums = group.self.slice();
    for (let at = sums.length - 1; at >= 0; at--) {
      if (sums[at] === 0) continue;
      const name = frames.function[nodes.frame[at]];
      self[name] += group.self[at];
      if (recurs[at] === 0) total[name] += sums[at];
      if (nodes.parent[at] >= 0) sums[nodes.parent[at]] += sums[at];
    }
  }
  return { self, total };
}

/**
 * Returns an array of 0 and 1 with the functions whose name, module or file contains `text`; null if `text` is
 * empty.
 */
function foundFunctions(profile, text) {
  const wanted = text.trim().toLowerCase();
  if (wanted === "") return null;
  const found = new Uint8Array(profile.names.length);
  for (let name = 0; name < found.length; name++) {
    if (profile.names[name].toLowerCase().includes(wanted) || profile.modules[name].toLowerCase().includes(wanted)) found[name] = 1;
  }
  const files = profile.files.map((file) => file.toLowerCase().includes(wanted));
  for (let frame = 0; frame < profile.frames.file.length; frame++) {
    if (profile.frames.file[frame] >= 0 && files[profile.frames.file[frame]]) found[profile.frames.function[frame]] = 1;
  }
  return found;
}

/** Returns the part of the selected time with a found function on the stack. */
function foundTotal(profile, chosen, found) {
  const { nodes, frames } = profile;
  const has = new Uint8Array(nodes.parent.length);
  let sum = 0;
  for (let at = 0; at < has.length; at++) {
    has[at] = found[frames.function[nodes.frame[at]]] || (nodes.parent[at] >= 0 && has[nodes.parent[at]]) ? 1 : 0;
  }
  for (const group of chosen.groups) {
    for (let at = 0; at < has.length; at++) if (has[at]) sum += group.self[at];
  }
  return sum;
}
