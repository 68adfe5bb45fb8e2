// The picture: utilization, a row per node with a bar per job, waiting jobs; all on one time axis that ends now.

import { busySteps, measure, waitingSteps } from "./model.js";
import { color, ink, pattern } from "./looks.js";
import { ago, clock, percent, plural, seconds } from "./words.js";

const TOP = 46, BOTTOM = 38, AXIS = 20, GAP = 8;
const TICKS = { 900: 180, 300: 60, 60: 10 };

export class Gantt {
  constructor(canvas, tip, model) {
    this.canvas = canvas;
    this.tip = tip;
    this.model = model;
    this.window_s = 900;
    this.boxes = [];
    this.describedAt = 0;
    canvas.addEventListener("pointermove", (event) => this.point(event));
    canvas.addEventListener("pointerdown", (event) => this.point(event));
    canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  draw(jobs) {
    const state = this.model.state;
    const width = this.canvas.clientWidth;
    if (width === 0) return;
    const rows = state.nodes.length;
    const row = Math.min(26, Math.max(1, Math.floor(Math.min(560, Math.max(120, rows * 22)) / rows * 2) / 2));
    const height = Math.ceil(TOP + GAP + rows * row + GAP + BOTTOM + AXIS);
    const ratio = window.devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    const style = getComputedStyle(document.body);
    const tone = (name) => style.getPropertyValue(`--${name}`).trim();
    this.tones = { ink: tone("ink"), faint: tone("faint"), grid: tone("grid"), line: tone("line"), down: tone("down"), accent: tone("accent"), idle: tone("idle") };
    const context = this.canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = "11px system-ui, sans-serif";
    const widest = Math.max(...sample(state.nodes).map(([name]) => context.measureText(name).width), 40);
    const now = this.model.now();
    const left = Math.min(widest + 8, width * 0.25);
    this.area = { left, right: width - 2, top: TOP + GAP, bottom: TOP + GAP + rows * row, row, now, from: now - this.window_s };
    this.boxes = [];
    const known = Math.max(this.area.from, 0);
    this.axis(context, height);
    this.nodes(context, state);
    this.bars(context, jobs);
    this.utilization(context, jobs, state, known);
    this.waiting(context, jobs, known);
    this.describe(state);
  }

  x(time_s) {
    const { left, right, from, now } = this.area;
    return left + Math.min(1, Math.max(0, (time_s - from) / (now - from))) * (right - left);
  }

  y(node) {
    return this.area.top + node * this.area.row;
  }

  axis(context, height) {
    const { left, right, top, bottom, from, now } = this.area;
    let every = TICKS[this.window_s] ?? 60;
    if (right - left < 500) every *= 2;
    context.textAlign = "center";
    for (let past = every; past < this.window_s; past += every) {
      const x = this.x(now - past);
      context.fillStyle = this.tones.grid;
      context.fillRect(x, 4, 1, height - AXIS - 4);
      context.fillStyle = this.tones.faint;
      const text = `\u2212${past < 60 ? `${past} s` : `${past / 60} min`}`;
      const half = context.measureText(text).width / 2;
      if (x - half > left && x + half + 32 < right) context.fillText(text, x, height - 6);
    }
    context.fillStyle = this.tones.faint;
    context.textAlign = "right";
    context.fillText("now", right, height - 6);
    if (from < 0) { // The scheduler began within the picture.
      context.fillStyle = this.tones.line;
      context.fillRect(this.x(0), top, 1, bottom - top);
    }
  }

  nodes(context, state) {
    const { left, right, row, from } = this.area;
    const every = Math.max(1, Math.ceil(12 / row));
    state.nodes.forEach(([name, status], number) => {
      const y = this.y(number);
      context.fillStyle = this.tones.idle;
      context.fillRect(this.x(Math.max(from, 0)), y, right - this.x(Math.max(from, 0)), row);
      context.fillStyle = this.tones.grid;
      if (row >= 6) context.fillRect(left, y, right - left, 0.5);
      if (number % every) return;
      context.textAlign = "right";
      context.textBaseline = "middle";
      context.fillStyle = status === "down" ? this.tones.down : this.tones.faint;
      context.fillText(fitted(context, name, left - 6), left - 5, y + Math.max(row, 10) / 2);
    });
    context.textBaseline = "alphabetic";
    for (const [node, since, until, job] of state.reserved) {
      context.fillStyle = job === null ? this.tones.down : pattern(context, "/", this.tones.faint);
      this.box(context, since, until, node, node);
    }
    this.kept(context, state);
  }

  // Nodes that were kept for a reservation are dotted, as far as no job used them.
  kept(context, state) {
    const { now } = this.area;
    for (const [name, since, until, ranges] of state.kept) {
      let largest = null;
      for (const [first, last] of ranges) {
        context.fillStyle = pattern(context, ".", this.tones.accent);
        const box = this.box(context, since, Math.min(until, now), first, last);
        if (box !== null && (largest === null || box.h > largest.h)) largest = box;
      }
      if (largest !== null) this.label(context, largest, name, 2, this.tones.idle, this.tones.ink);
    }
  }

  // Where jobs share nodes, each fills its part of each row.
  parts(context, since, until, first, last, share, top) {
    let largest = null;
    for (let node = first; node <= last; node += 1) {
      largest = this.box(context, since, until, node + top, node + top + share - 1) ?? largest;
    }
    return largest;
  }

  // Fills a rectangle of time and rows; returns it, or null where it cannot be seen.
  box(context, since, until, first, last) {
    const { from, now, row } = this.area;
    if ((until ?? now) <= from) return null;
    const x = this.x(since);
    const gap = row >= 8 ? 1 : 0;
    const found = { x, y: this.y(first) + gap, w: Math.max(this.x(until ?? now) - x, 0.5), h: (last - first + 1) * row - 2 * gap };
    context.fillRect(found.x, found.y, found.w, found.h);
    return found;
  }

  bars(context, jobs) {
    for (const job of jobs) {
      let largest = null;
      for (const [since, until, ranges, share = 1, top = 0] of job.segments ?? []) {
        for (const [first, last] of ranges) {
          context.fillStyle = color(job.id);
          const draw = share < 1 ? this.parts : this.box;
          const box = draw.call(this, context, since, until, first, last, share, top);
          if (box === null) continue;
          this.boxes.push({ ...box, job, since, until, ranges, share });
          if (largest === null || box.w * box.h > largest.w * largest.h) largest = box;
        }
      }
      this.start(context, job);
      for (const resize of job.resizes ?? []) this.resize(context, job, resize);
      const name = `${job.class === "malleable" ? "↔ " : ""}${job.name}`;
      if (largest !== null && largest.w >= 24) this.label(context, largest, name, 3, color(job.id), ink(job.id));
    }
  }

  // A line parts a job from the one before it on the same nodes.
  start(context, job) {
    const first = job.segments?.[0];
    if (first === undefined || first.length > 3 || first[0] > (job.start_s ?? 0) + 0.1 || first[0] <= this.area.from) return;
    context.fillStyle = this.tones.idle;
    for (const [low, high] of first[2]) context.fillRect(this.x(first[0]) - 0.5, this.y(low), 1, (high - low + 1) * this.area.row);
  }

  // The seconds of a resize are shaded on the nodes that the job held meanwhile; its end is a line.
  resize(context, job, resize) {
    const { from, now } = this.area;
    const done = resize.done_s ?? now;
    if (done <= from) return;
    for (const [since, until, ranges] of job.segments ?? []) {
      const begin = Math.max(since, resize.ordered_s, from);
      const end = Math.min(until ?? now, done);
      if (end < begin) continue;
      for (const [first, last] of ranges) {
        context.fillStyle = "rgba(0,0,0,.4)";
        this.box(context, begin, end, first, last);
        context.fillStyle = resize.outcome === "done" || resize.outcome === "pending" ? "#000000" : "#b3400a";
        if (resize.done_s !== null && end === done) context.fillRect(this.x(done) - 0.5, this.y(first), 1.5, (last - first + 1) * this.area.row);
      }
    }
  }

  // Writes into a box, unless less than `least` characters of a longer text have room there.
  label(context, box, text, least, ground, ink) {
    if (box.h < 11) return;
    const label = fitted(context, text, box.w - 8);
    if (label.length < least && label !== text) return;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = ground;
    context.fillRect(box.x + 2, box.y + box.h / 2 - 7, context.measureText(label).width + 5, 14);
    context.fillStyle = ink;
    context.fillText(label, box.x + 4, box.y + box.h / 2 + 0.5);
    context.textBaseline = "alphabetic";
  }

  utilization(context, jobs, state, known) {
    const { left, right, now } = this.area;
    const usable = Math.max(1, state.totals.busy + state.totals.idle);
    const found = busySteps(jobs, now);
    const { mean } = measure(found, known, now);
    this.strip(context, found, usable, 14, TOP, this.tones.accent);
    context.textAlign = "left";
    context.fillStyle = this.tones.ink;
    context.fillText(`busy: ${percent(Math.min(1, mean / usable))} on average`, left + 2, 10);
    context.textAlign = "right";
    context.fillStyle = this.tones.faint;
    context.fillText("100 %", left - 5, 20);
    context.fillText("0", left - 5, TOP);
    context.fillStyle = this.tones.line;
    context.fillRect(left, TOP, right - left, 1);
  }

  waiting(context, jobs, known) {
    const { left, right, bottom, now, from } = this.area;
    const found = waitingSteps(jobs, this.model.state.unlisted, now);
    const { highest } = measure(found, known, now);
    const base = bottom + GAP + BOTTOM - 8;
    this.strip(context, found, Math.max(1, highest), bottom + GAP + 14, base, this.tones.faint);
    context.textAlign = "left";
    context.fillStyle = this.tones.ink;
    context.fillText(highest ? `waiting: at most ${plural(highest, "job")}` : "waiting: none", left + 2, bottom + GAP + 10);
    context.fillStyle = this.tones.line;
    context.fillRect(left, base, right - left, 1);
    context.fillStyle = this.tones.faint;
    for (const job of jobs) {
      if (job.submit_s < from) continue;
      const x = this.x(job.submit_s);
      context.beginPath();
      context.moveTo(x - 3, base + 7);
      context.lineTo(x + 3, base + 7);
      context.lineTo(x, base + 2);
      context.fill();
    }
  }

  strip(context, found, most, top, base, tone) {
    const { from, now } = this.area;
    context.fillStyle = tone;
    found.forEach(([at, level], index) => {
      const until = found[index + 1]?.[0] ?? now;
      if (until <= from || level <= 0) return;
      const height = (base - top) * Math.min(1, level / most);
      const x = this.x(Math.max(at, from));
      context.globalAlpha = 0.3;
      context.fillRect(x, base - height, this.x(until) - x, height);
      context.globalAlpha = 1;
      context.fillRect(x, base - height - 0.75, this.x(until) - x, 1.5);
    });
  }

  point(event) {
    const frame = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - frame.left, event.clientY - frame.top];
    const hit = this.boxes.findLast((box) => x >= box.x && x <= box.x + box.w && y >= box.y && y <= box.y + box.h);
    this.tip.hidden = hit === undefined;
    if (hit === undefined) return;
    const held = hit.ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    const part = hit.share < 1 ? `${percent(hit.share)} of ` : "";
    const { now } = this.area;
    const span = hit.until === null ? `for ${seconds(now - hit.since)} now` : `for ${seconds(hit.until - hit.since)}, until ${ago(now - hit.until)}`;
    this.tip.textContent = `${hit.job.name} (job ${hit.job.id}, ${hit.job.class}): ${part}${plural(held, "node")} ${span}; since ${clock(this.model.wall(hit.since))}`;
    this.tip.style.left = `${Math.max(0, Math.min(x + 12, frame.width - this.tip.offsetWidth - 4))}px`;
    this.tip.style.top = `${y + 14}px`;
  }

  // For those who do not see the picture; not more often than can be read out.
  describe(state) {
    if (performance.now() - this.describedAt < 10000 && this.describedAt) return;
    this.describedAt = performance.now();
    const { busy, idle, down, running, waiting } = state.totals;
    this.canvas.setAttribute("aria-label", `Nodes over the last ${plural(this.window_s / 60, "minute")}. Now ${busy} busy, ${idle} idle, ${down} down; ${plural(running, "job")} running, ${waiting} waiting. The tables below have the same.`);
  }
}

// Some of many names, to measure how wide they are.
function sample(nodes) {
  const every = Math.ceil(nodes.length / 50);
  return nodes.filter((_, number) => number % every === 0);
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let shorter = text;
  while (shorter && context.measureText(`${shorter}…`).width > width) shorter = shorter.slice(0, -1);
  return shorter ? `${shorter}…` : "";
}
