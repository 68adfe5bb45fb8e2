// Listens to the server's events and shows what they say, once a second.

import { Gantt } from "./gantt.js";
import { color, PHASES } from "./looks.js";
import { Model } from "./model.js";
import { cell, pair, part, Table } from "./tables.js";
import { ago, away, clock, large, NOTHING, percent, plural, seconds, span, timesIn } from "./words.js";

const SILENT_S = 10;
const AGAIN_MS = 2000;

const model = new Model();
const gantt = new Gantt(document.getElementById("gantt"), document.getElementById("tip"), model);
const tables = Object.fromEntries(["running", "queue", "resizes", "ended"].map((id) => [id, new Table(id)]));
let version = null;
let lostAt = null;
let users = 0;

function listen() {
  const source = new EventSource("events");
  source.addEventListener("full", (event) => {
    const state = JSON.parse(event.data);
    if (version !== null && version !== state.version) location.reload();
    version = state.version;
    model.full(state);
    heard();
  });
  source.addEventListener("change", (event) => {
    model.change(JSON.parse(event.data));
    heard();
  });
  source.addEventListener("error", () => {
    lost();
    if (source.readyState === EventSource.CLOSED) setTimeout(listen, AGAIN_MS); // It was refused, and gave up.
  });
}

function heard() {
  lostAt = null;
  document.body.classList.remove("stale");
  show();
}

function lost() {
  lostAt ??= new Date();
  document.body.classList.add("stale");
  status();
}

function status() {
  const said = document.getElementById("connection");
  said.classList.toggle("lost", lostAt !== null);
  const words = lostAt !== null ? `no scheduler since ${clock(lostAt)}, trying again` : model.state === null ? "connecting …" : `live, ${clock(new Date())}`;
  if (lostAt === null || said.textContent !== words) said.textContent = words;
}

function waits(job) {
  return job.state === "waiting" || job.state === "held";
}

function show() {
  if (model.state === null || document.hidden) return;
  const jobs = model.jobs();
  const now = model.now();
  totals(model.state.totals);
  advance(model.state.advance);
  if (!chosen) fit(now);
  gantt.draw(jobs);
  const open = jobs.filter((job) => job.end_s === null);
  users = new Set(jobs.map((job) => job.user)).size;
  tables.running.show(open.filter((job) => !waits(job)), (job) => runningRow(job, now));
  tables.queue.show(open.filter(waits), (job) => queueRow(job, now), model.state.unlisted.reduce((sum, [, count]) => sum + count, 0));
  tables.resizes.show(model.resizes(jobs), (resize) => resizeRow(resize, now));
  const ended = jobs.filter((job) => job.end_s !== null).sort((a, b) => b.end_s - a.end_s || b.id - a.id);
  tables.ended.show(ended, (job) => endedRow(job, now));
  status();
}

function totals(counts) {
  document.getElementById("policy").textContent = `policy ${model.state.policy}`;
  const nodes = counts.busy + counts.idle + counts.down;
  const tiles = [
    ["nodes busy", `${counts.busy}`], ["idle", `${counts.idle}`], ["down", `${counts.down}`, counts.down > 0],
    ["jobs running", `${counts.running}`], ["waiting", `${counts.waiting}`], ["ended", `${counts.ended}`],
    ["busy now", percent(counts.utilization_now)], ["since start", percent(counts.utilization)],
  ];
  const list = document.getElementById("totals");
  if (!list.children.length) list.append(...tiles.map(([name]) => part("div", "", part("dt", "", name), part("dd", "", ""))));
  tiles.forEach(([, value, alarm], index) => {
    list.children[index].classList.toggle("alarm", alarm === true);
    const shown = list.children[index].lastElementChild;
    if (shown.textContent !== value) shown.textContent = value;
  });
  document.title = `${counts.busy}/${nodes} busy, ${counts.waiting} waiting – malleable`;
  const notes = document.getElementById("notes");
  notes.hidden = model.state.notes.length === 0;
  notes.textContent = model.state.notes.join(" · ");
  document.getElementById("since").textContent = `· scheduler started ${new Date(model.state.started_at).toLocaleString()}`;
}

function advance(reservations) {
  const list = document.getElementById("advance");
  const now = model.now();
  const lines = reservations.map((kept) => {
    const nodes = kept.nodes.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    const time = kept.started ? `for ${seconds(kept.to_s - now)} more` : `in ${seconds(kept.from_s - now)} for ${seconds(kept.to_s - kept.from_s)}`;
    const whom = kept.users.length ? `, for ${kept.users.join(", ")}` : "";
    return [`reserved as ${kept.name}: ${plural(nodes, "node")} ${time}${whom}; ${kept.jobs ? plural(kept.jobs, "job") : "no job"}`, `from ${day(kept.from_s)} to ${day(kept.to_s)}`];
  });
  list.hidden = lines.length === 0;
  if (list.textContent === lines.map(([line]) => line).join("")) return;
  list.replaceChildren(...lines.map(([line, title]) => Object.assign(part("li", "", line), { title })));
}

// The time of day, for tooltips; with the date, if that is another day. All other times count from now.
function day(at_s) {
  const date = model.wall(at_s);
  const time = clock(date);
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString()} ${time}`;
}

function jobCell(job) {
  const chip = part("span", "chip");
  chip.style.background = color(job.id);
  const below = `${job.id} · ${job.class}${users > 1 ? ` · ${job.user}` : ""}`;
  return cell({ as: "job" }, chip, part("b", "", job.name), part("span", "sub", below));
}

function runningRow(job, now) {
  const state = job.resizing ? `${{grow: "growing", shrink: "shrinking"}[job.resizing] || "changing its workers"}…` : job.state === "running" ? "" : job.state;
  const left = job.expected_end_s === null ? "" : `at most ${seconds(job.expected_end_s - now)} left`;
  const ran = job.start_s === null ? NOTHING : seconds(now - job.start_s);
  return { key: job.id, cells: [jobCell(job), allocation(job, state), progress(job), pair(ran, left, "short", "ran", job.start_s === null ? "" : `since ${day(job.start_s)}`), lastResize(job, now)] };
}

function allocation(job, state) {
  const filled = part("div", "fill");
  filled.style.width = percent(job.held / job.max).replace(" ", "");
  filled.style.background = color(job.id);
  const track = part("div", "track", filled);
  track.title = `${job.held} of ${span(job.min, job.max)} nodes`;
  if (job.min < job.max) {
    const edge = part("div", "edge");
    edge.style.left = `calc(${(100 * job.min) / job.max}% - 2px)`;
    track.append(edge);
  }
  const words = job.min === job.max ? `${job.held}` : `${job.min} – ${job.held} – ${job.max}`;
  return cell({ label: "nodes" }, `${words} ${state}`, track);
}

function progress(job) {
  if (job.progress === null) return pair(NOTHING, "", "", "progress");
  if (!job.progress_total) return pair(`${large(job.progress)} ${job.progress_unit}`, "", "", "progress");
  const share = Math.min(1, job.progress / job.progress_total);
  return pair(percent(share), `of ${large(job.progress_total)} ${job.progress_unit}`, "", "progress");
}

function lastResize(job, now) {
  const resize = (job.resizes ?? []).at(-1);
  if (resize === undefined) return pair(job.class === "malleable" ? (job.ready ? "none yet" : "takes no orders now") : NOTHING, "", "text");
  const counts = [job.grows && plural(job.grows, "grow"), job.shrinks && plural(job.shrinks, "shrink")].filter(Boolean).join(", ");
  const said = `${did(resize)}${resize.took_s === null ? "" : ` in ${took(resize)}`}`;
  const below = part("span", "sub", `${ago(now - resize.ordered_s)}${counts ? ` · ${counts}` : ""}`);
  return cell({ as: "text", title: day(resize.ordered_s) }, said, phases(resize), below);
}

function did(resize) {
  if (resize.outcome === "done") return `${resize.kind === "grow" ? "grew" : "shrank"} by ${resize.count}`;
  if (resize.outcome === "pending") return `is to ${resize.kind} by ${resize.count}`;
  return `did not ${resize.kind} by ${resize.count}: ${resize.outcome.replace("_", " ")}`;
}

// The phases of a resize as parts of a bar, each as long as its share of the whole.
function phases(resize) {
  const bar = part("span", "phases");
  const whole = Object.values(resize.phases).reduce((sum, part_s) => sum + part_s, 0);
  for (const [name, part_s] of Object.entries(resize.phases)) {
    const piece = document.createElement("i");
    piece.style.width = `${(100 * part_s) / (whole || 1)}%`;
    piece.style.background = PHASES[name] ?? "var(--faint)";
    bar.append(piece);
  }
  bar.title = phaseWords(resize);
  bar.hidden = whole === 0;
  return bar;
}

// Hundredths, as those of its parts, which add up to it.
function took(resize) {
  return `${resize.took_s.toFixed(2)} s`;
}

function phaseWords(resize) {
  return Object.entries(resize.phases).map(([name, part_s]) => `${name} ${part_s.toFixed(2)} s`).join(" + ");
}

function queueRow(job, now) {
  const wanted = job.class === "malleable" ? `${span(job.min, job.max)} nodes` : plural(job.wanted, "node");
  const left_s = job.expected_start_s === null ? null : job.expected_start_s - now;
  const starts = left_s === null ? NOTHING : left_s < 0.05 ? "now" : `in ${seconds(left_s)}`;
  const latest = job.expected_start_s === null ? "" : "expected";
  return {
    key: job.id,
    cells: [
      jobCell(job), pair(wanted, `for ${seconds(job.walltime_s)}`, "short", "asks for"), pair(seconds(now - job.submit_s), "", "short", "waits", `since ${day(job.submit_s)}`),
      pair(starts, latest, "short", "starts", job.expected_start_s === null ? "" : day(job.expected_start_s)), reason(job.reason, now),
    ],
  };
}

// The scheduler's core knows no clock but its own: its times count from now, as all others, with the time of day in
// the tooltip.
function reason(words, now) {
  return cell({ as: "text", title: ofDay(words) }, fromNow(words, now));
}

function fromNow(words, now) {
  return timesIn(words, (word, at_s) => away(word, at_s - now));
}

function ofDay(words) {
  return timesIn(words, (word, at_s) => `${word} ${day(at_s)}`);
}

function resizeRow(resize, now) {
  const bad = resize.outcome !== "done" && resize.outcome !== "pending";
  const said = [phaseWords(resize), resize.reason].filter(Boolean).join(" · ");
  const words = said ? [phases(resize), part("span", "sub", said)] : [];
  return {
    key: `${resize.job.id}.${resize.order}`,
    cells: [
      pair(ago(now - resize.ordered_s), "", "short", "", day(resize.ordered_s)), jobCell(resize.job),
      cell({ as: bad ? "bad short" : "short" }, did(resize)),
      cell({ as: "short" }, resize.took_s === null ? "under way" : took(resize)),
      cell({ as: "text", title: ofDay(resize.why) }, fromNow(resize.why, now), ...words),
    ],
  };
}

function endedRow(job, now) {
  return {
    key: job.id,
    cells: [
      pair(ago(now - job.end_s), "", "short", "", day(job.end_s)), jobCell(job),
      cell({ as: job.state === "completed" ? "good" : "bad" }, job.state),
      cell({ as: "short", label: "ran" }, job.start_s === null ? NOTHING : seconds(job.end_s - job.start_s)), reason(job.reason, now),
    ],
  };
}

// Until somebody chooses, the picture reaches as far back as the scheduler has run, or as it can.
const windows = [...document.querySelectorAll("[data-window]")];
let chosen = false;

function choose(window_s) {
  gantt.window_s = window_s;
  for (const button of windows) button.setAttribute("aria-pressed", String(Number(button.dataset.window) === window_s));
}

function fit(now) {
  const lengths = windows.map((button) => Number(button.dataset.window)).sort((a, b) => a - b);
  choose(lengths.find((length) => length >= now) ?? lengths.at(-1));
}

for (const button of windows) {
  button.addEventListener("click", () => {
    chosen = true;
    choose(Number(button.dataset.window));
    show();
  });
}
window.addEventListener("resize", show);
document.addEventListener("visibilitychange", show);
setInterval(() => {
  if (model.state !== null && model.silence() > SILENT_S) lost();
  else if (lostAt === null) show();
}, 1000);
listen();
