// Decodes a stall's samples and stacks, which PageProfile.swift encodes.

/** Decodes Base64. */
function fromBase64(text) {
  const characters = atob(text.trim());
  const bytes = new Uint8Array(characters.length);
  for (let place = 0; place < bytes.length; place++) bytes[place] = characters.charCodeAt(place);
  return bytes;
}

/** Decompresses gzip. */
async function decompressed(bytes) {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads consecutive LEB128 numbers of up to 53 bits. */
class Columns {
  constructor(bytes, place) {
    this.bytes = bytes;
    this.place = place;
  }

  number() {
    const { bytes } = this;
    let byte = bytes[this.place++];
    if (byte < 0x80) return byte;
    let value = byte & 0x7f;
    let factor = 0x80;
    do {
      byte = bytes[this.place++];
      value += (byte & 0x7f) * factor;
      factor *= 0x80;
    } while (byte >= 0x80);
    return value;
  }

  signed() {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  into(array, offset = 0) {
    for (let place = 0; place < array.length; place++) array[place] = this.number() - offset;
    return array;
  }
}

/**
 * Decodes a profile. The result contains names and texts, `frames` (places in functions), `nodes` (the tree of stacks,
 * in which parents precede their callees), `tracks` (a thread's samples in order of time, in nanoseconds), and `others`
 * (other threads, each captured once).
 */
function parseProfile(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const length = view.getUint32(0, true);
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, 4 + length)));
  const columns = new Columns(bytes, 4 + length);
  const frames = {
    function: columns.into(new Int32Array(header.frameCount)),
    file: columns.into(new Int32Array(header.frameCount), 1),
    line: columns.into(new Int32Array(header.frameCount)),
    flags: columns.into(new Uint8Array(header.frameCount)),
  };
  const count = header.nodeCount;
  const nodes = { parent: new Int32Array(count), frame: new Int32Array(count) };
  for (let node = 0; node < count; node++) nodes.parent[node] = node - columns.number();
  columns.into(nodes.frame);
  const unobserved = header.stateKinds.indexOf("unobserved");
  const tracks = header.threads.map((thread, number) => track(columns, thread, header.sampleCounts[number], unobserved));
  const others = header.otherThreads.map((thread) => ({
    thread, node: columns.number() - 1, state: columns.number(),
  }));
  return { ...header, frames, nodes, tracks, others, duration: header.durationNs };
}

/** Reads a thread's samples and the gaps between them. `ordinal` numbers the samples from 1 and is 0 for gaps. */
function track(columns, thread, count, unobserved) {
  const begin = new Float64Array(count);
  const end = new Float64Array(count);
  const weight = new Float64Array(count);
  const distance = new Float64Array(count);
  for (let sample = 0; sample < count; sample++) distance[sample] = columns.signed();
  let position = 0;
  for (let sample = 0; sample < count; sample++) {
    begin[sample] = position + distance[sample];
    end[sample] = position = begin[sample] + columns.number();
  }
  for (let sample = 0; sample < count; sample++) weight[sample] = end[sample] - begin[sample] - columns.signed();
  const node = columns.into(new Int32Array(count), 1);
  const state = columns.into(new Uint16Array(count));
  const label = columns.into(new Int32Array(count), 1);
  const ordinal = new Int32Array(count);
  let samples = 0;
  for (let sample = 0; sample < count; sample++) ordinal[sample] = state[sample] === unobserved ? 0 : ++samples;
  return { thread, count, samples, begin, end, weight, node, state, label, ordinal };
}

/** Returns the nodes of the stack that ends in `node`, innermost first. */
function stackOf(profile, node) {
  const stack = [];
  for (let at = node; at >= 0; at = profile.nodes.parent[at]) stack.push(at);
  return stack;
}

/** Returns the index of the sample of `track` at `time`; -1 if there is none. */
function sampleAt(track, time) {
  let low = 0;
  let high = track.count - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    if (track.begin[middle] > time) high = middle - 1;
    else if (track.end[middle] <= time && middle < track.count - 1) low = middle + 1;
    else return track.end[middle] >= time ? middle : -1;
  }
  return -1;
}
