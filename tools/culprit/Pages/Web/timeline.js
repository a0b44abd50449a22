// The timeline of samples and phases for each thread, in which a range of time can be selected.

const AXIS = 22;
const PHASES = 24;
const TRACK = 30;
const LABELS = 18;

/** Returns a title, as in "Sample 3 of 12"; "No sample" for a gap. */
function sampleTitle(track, sample) {
  const ordinal = track.ordinal[sample];
  return ordinal === 0 ? "No sample" : `Sample ${ordinal.toLocaleString("en")} of ${track.samples.toLocaleString("en")}`;
}

class Timeline {
  /** Calls `on.sample(track, sample)` and `on.range([from, to] or null)` for the user's selections. */
  constructor(on) {
    this.on = on;
    this.box = byID("timeline-box");
    this.canvas = byID("timeline-canvas");
    this.marks = byID("timeline-marks");
    this.range = null;
    this.at = null;
    this.box.addEventListener("pointerdown", (event) => this.press(event));
    this.box.addEventListener("pointermove", (event) => this.move(event));
    this.box.addEventListener("pointerup", (event) => this.release(event));
    this.box.addEventListener("pointercancel", () => { this.pressed = null; });
    this.box.addEventListener("pointerleave", () => showHint(null, []));
    this.box.addEventListener("keydown", (event) => this.key(event));
  }

  show(profile) {
    Object.assign(this, { profile, range: null, at: null, pressed: null });
    this.hasLabels = profile.tracks.some((track) => track.label.some((label) => label >= 0));
    this.box.setAttribute("aria-valuemax", Math.round(profile.duration / 1e6));
    this.box.setAttribute("aria-valuetext", `${counted(this.count, "sample")} in ${duration(profile.duration)}; none is chosen`);
    this.draw();
  }

  get count() { return this.profile.tracks.reduce((sum, track) => sum + track.samples, 0); }
  get rowHeight() { return TRACK + (this.hasLabels ? LABELS : 0); }
  get top() { return AXIS + (this.profile.phases.length > 0 ? PHASES + 4 : 0); }
  x(time) { return (time / this.profile.duration) * this.width; }
  time(x) { return Math.min(this.profile.duration, Math.max(0, (x / this.width) * this.profile.duration)); }

  draw() {
    const { profile } = this;
    this.width = this.box.clientWidth;
    if (!profile || this.width === 0) return;
    this.height = this.top + profile.tracks.length * (this.rowHeight + 4) + 4;
    const context = sizedCanvas(this.canvas, this.width, this.height);
    context.font = themeColour("graph-font");
    context.textBaseline = "middle";
    this.drawAxis(context);
    const ink = themeColour("graph-ink");
    for (const phase of profile.phases) {
      const [left, right] = [this.x(phase.beginNs), this.x(phase.endNs)];
      context.fillStyle = themeColour(phase.isCulprit ? "fill-culprit" : "fill-own");
      context.fillRect(left, AXIS, Math.max(1, right - left - 1), PHASES);
      context.fillStyle = ink;
      context.fillText(fittedText(context, phase.name, right - left - 10), left + 5, AXIS + PHASES / 2);
    }
    const colours = profile.stateKinds.map((kind) => themeColour(`state-${STATE_COLOURS[kind] ?? "unknown"}`));
    profile.tracks.forEach((track, number) => this.drawTrack(context, track, this.top + number * (this.rowHeight + 4), colours));
    this.drawMarks();
  }

  drawAxis(context) {
    const { profile, width, height } = this;
    const about = profile.duration / Math.max(2, width / 110);
    const power = 10 ** Math.floor(Math.log10(about));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= about) ?? about;
    for (let time = 0; time <= profile.duration; time += step) {
      const x = this.x(time);
      context.fillStyle = themeColour("line");
      context.fillRect(Math.round(x), 0, 1, height);
      context.fillStyle = themeColour("faint");
      if (x + 60 < width) context.fillText(duration(time), x + 4, AXIS / 2);
    }
    for (const [time, name] of [[profile.thresholdNs, "threshold"], [profile.hangNs, "hang"]]) {
      if (time === undefined || time > profile.duration) continue;
      context.fillStyle = themeColour("accent");
      context.fillRect(Math.round(this.x(time)), 0, 2, height);
      context.textAlign = this.x(time) > width / 2 ? "right" : "left";
      context.fillStyle = themeColour("paper");
      const wide = context.measureText(name).width + 8;
      context.fillRect(this.x(time) - (context.textAlign === "right" ? wide : -2), 0, wide, AXIS - 2);
      context.fillStyle = themeColour("accent");
      context.fillText(name, this.x(time) + (context.textAlign === "right" ? -4 : 6), AXIS / 2);
      context.textAlign = "left";
    }
  }

  /** Draws samples wider than a pixel individually. Each column of narrower samples gets its most frequent state. */
  drawTrack(context, track, top, colours) {
    const columns = Math.ceil(this.width);
    const states = colours.length;
    const times = new Float64Array(columns * states);
    const scale = this.width / this.profile.duration;
    for (let sample = 0; sample < track.count; sample++) {
      const left = track.begin[sample] * scale;
      const right = track.end[sample] * scale;
      const column = Math.min(columns - 1, Math.floor(left));
      if (right - left >= 2) {
        context.fillStyle = colours[track.state[sample]];
        context.fillRect(left, top, right - left - (right - left > 6 ? 1 : 0), TRACK);
      } else {
        times[column * states + track.state[sample]] += right - left;
      }
    }
    for (let column = 0; column < columns; column++) {
      let best = -1;
      for (let state = 0; state < states; state++) {
        const time = times[column * states + state];
        if (time > 0 && (best < 0 || time > times[column * states + best])) best = state;
      }
      if (best < 0) continue;
      context.fillStyle = colours[best];
      context.fillRect(column, top, 1, TRACK);
    }
    if (this.hasLabels) this.drawLabels(context, track, top + TRACK + 2);
    if (this.profile.tracks.length > 1) {
      context.fillStyle = themeColour("paper");
      const wide = context.measureText(track.thread).width + 10;
      context.fillRect(4, top + 5, wide, 20);
      context.fillStyle = themeColour("ink");
      context.fillText(track.thread, 9, top + TRACK / 2);
    }
  }

  drawLabels(context, track, top) {
    let first = 0;
    const fill = themeColour("fill-all");
    const ink = themeColour("graph-ink");
    while (first < track.count) {
      let next = first + 1;
      while (next < track.count && track.label[next] === track.label[first]) next++;
      const [left, right] = [this.x(track.begin[first]), this.x(track.end[next - 1])];
      if (track.label[first] >= 0 && right - left >= 1) {
        context.fillStyle = fill;
        context.fillRect(left, top, right - left - 1, LABELS - 2);
        context.fillStyle = ink;
        context.fillText(fittedText(context, this.profile.labels[track.label[first]], right - left - 10), left + 5, top + LABELS / 2);
      }
      first = next;
    }
  }

  /** Draws the selected sample and range on a separate layer above the tracks. */
  drawMarks() {
    if (!this.profile || !this.height) return;
    const context = sizedCanvas(this.marks, this.width, this.height);
    if (this.range) {
      const [left, right] = this.range.map((time) => this.x(time));
      context.fillStyle = themeColour("veil");
      context.fillRect(0, AXIS, left, this.height);
      context.fillRect(right, AXIS, this.width - right, this.height);
      context.fillStyle = themeColour("focus");
      context.fillRect(left, AXIS, 2, this.height);
      context.fillRect(right - 2, AXIS, 2, this.height);
    }
    if (!this.at) return;
    const track = this.profile.tracks[this.at.track];
    const left = this.x(track.begin[this.at.sample]);
    const wide = Math.max(3, this.x(track.end[this.at.sample]) - left);
    context.strokeStyle = themeColour("focus");
    context.lineWidth = 3;
    context.strokeRect(left + 0.5, this.top + this.at.track * (this.rowHeight + 4) - 1, wide - 1, TRACK + 2);
  }

  place(event) {
    const bounds = this.box.getBoundingClientRect();
    return { x: event.clientX - bounds.left, y: event.clientY - bounds.top };
  }

  sampleNear(place) {
    const { profile } = this;
    const row = Math.floor((place.y - this.top) / (this.rowHeight + 4));
    const track = Math.min(profile.tracks.length - 1, Math.max(0, row));
    const sample = sampleAt(profile.tracks[track], this.time(place.x));
    return sample < 0 ? null : { track, sample };
  }

  press(event) {
    if (event.button !== 0 || !this.profile) return;
    this.pressed = this.place(event);
    this.box.setPointerCapture(event.pointerId);
  }

  move(event) {
    const place = this.place(event);
    if (this.pressed && Math.abs(place.x - this.pressed.x) > 4) {
      const times = [this.time(this.pressed.x), this.time(place.x)].sort((one, other) => one - other);
      this.range = times;
      this.drawMarks();
      showHint(event, [`${duration(times[0])} to ${duration(times[1])}`]);
      return;
    }
    const near = this.profile && this.sampleNear(place);
    showHint(event, near ? this.lines(near) : []);
  }

  release(event) {
    if (!this.pressed) return;
    const place = this.place(event);
    const isDrag = Math.abs(place.x - this.pressed.x) > 4;
    this.pressed = null;
    if (isDrag) return this.on.range(this.range);
    const near = this.sampleNear(place);
    if (near) this.on.sample(near.track, near.sample);
  }

  /** Returns the description of a sample: time, state and function. */
  lines({ track: number, sample }) {
    const { profile } = this;
    const track = profile.tracks[number];
    const node = track.node[sample];
    const name = node < 0 ? "nothing" : profile.names[profile.frames.function[profile.nodes.frame[node]]];
    const lines = [`${duration(track.begin[sample])} to ${duration(track.end[sample])}: ${profile.states[track.state[sample]]}`, `in ${name}`];
    if (profile.tracks.length > 1) lines.push(track.thread);
    if (track.label[sample] >= 0) lines.push(profile.labels[track.label[sample]]);
    return lines;
  }

  choose(at) {
    this.at = at;
    this.drawMarks();
    if (!at) return;
    const track = this.profile.tracks[at.track];
    this.box.setAttribute("aria-valuenow", Math.round(track.begin[at.sample] / 1e6));
    this.box.setAttribute("aria-valuetext", `${sampleTitle(track, at.sample)}, ${this.lines(at).join(", ")}`);
  }

  setRange(range) {
    this.range = range;
    this.drawMarks();
  }

  key(event) {
    if (!this.profile || event.ctrlKey || event.altKey || event.metaKey) return;
    const { tracks } = this.profile;
    const track = this.at?.track ?? 0;
    const from = this.at?.sample ?? -1;
    const last = tracks[track].count - 1;
    const page = Math.max(1, Math.round(tracks[track].count / 20));
    const steps = { ArrowLeft: from - 1, ArrowRight: from + 1, PageDown: from + page, PageUp: from - page, Home: 0, End: last };
    if (event.key === "Escape") {
      event.preventDefault();
      this.on.range(null);
      return;
    }
    if ((event.key === "ArrowUp" || event.key === "ArrowDown") && tracks.length > 1) {
      event.preventDefault();
      const other = Math.min(tracks.length - 1, Math.max(0, track + (event.key === "ArrowDown" ? 1 : -1)));
      const time = this.at ? tracks[track].begin[this.at.sample] : 0;
      this.on.sample(other, Math.max(0, sampleAt(tracks[other], time)));
      return;
    }
    if (!(event.key in steps)) return;
    event.preventDefault();
    const sample = Math.min(last, Math.max(0, steps[event.key]));
    if (event.shiftKey) {
      const start = this.anchor ?? Math.max(0, from);
      this.anchor = start;
      const [low, high] = start < sample ? [start, sample] : [sample, start];
      this.on.range([tracks[track].begin[low], tracks[track].end[high]]);
    } else {
      this.anchor = undefined;
    }
    this.on.sample(track, sample);
  }
}
