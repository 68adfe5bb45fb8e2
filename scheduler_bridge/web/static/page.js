// Listens to the server's events and shows what they tell, once a second.

import { Gantt } from "./gantt.js";
import { color, PHASES } from "./looks.js";
import { Model } from "./model.js";
import { pair, part, Table, text } from "./tables.js";
import { clock, large, NOTHING, percent, plural, seconds, span } from "./words.js";

const SILENT_S = 10;
const AGAIN_MS = 2000;

const model = new Model();
const gantt = new Gantt(document.getElementById("gantt"), document.getElementById("tip"), model);
const tables = Object.fromEntries(["running", "queue", "resizes", "ended"].map((id) => [id, new Table(id)]));
let version = null;
let lostAt = null;

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
  tables.running.show(open.filter((job) => !waits(job)).map((job) => runningRow(job, now)));
  clockOfReasons(open.some(waits));
  tables.queue.show(open.filter(waits).map((job) => queueRow(job, now)), model.state.untold.reduce((sum, [, count]) => sum + count, 0));
  tables.resizes.show(model.resizes(jobs).map(resizeRow));
  tables.ended.show(jobs.filter((job) => job.end_s !== null).sort((a, b) => b.end_s - a.end_s || b.id - a.id).map(endedRow));
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

// Reasons tell times as the scheduler's core does, which knows no clock but its own.
function clockOfReasons(shown) {
  const line = document.getElementById("queue-clock");
  const text = `times in reasons are seconds since ${model.wall(0).toLocaleString()}`;
  line.hidden = !shown;
  if (line.textContent !== text) line.textContent = text;
}

function advance(reservations) {
  const list = document.getElementById("advance");
  const lines = reservations.map((kept) => {
    const nodes = kept.nodes.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    const time = kept.started ? `until ${clock(model.wall(kept.to_s), false)}` : `from ${day(kept.from_s)} to ${day(kept.to_s)}`;
    const whom = kept.users.length ? ` for ${kept.users.join(", ")}` : "";
    return `reserved as ${kept.name}: ${plural(nodes, "node")} ${time}${whom}; ${kept.jobs ? plural(kept.jobs, "job") : "no job"}`;
  });
  list.hidden = lines.length === 0;
  if (list.textContent !== lines.join("")) list.replaceChildren(...lines.map((line) => part("li", "", line)));
}

// A time as people say it; with the date, if that is another day.
function day(at_s) {
  const date = model.wall(at_s);
  const time = clock(date, false);
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString()} ${time}`;
}

function jobCell(job) {
  const below = `${job.id} · ${job.class}${job.user ? ` · ${job.user}` : ""}`;
  return {
    as: "job",
    say: `${job.name}\n${below}`,
    make: () => {
      const chip = part("span", "chip");
      chip.style.background = color(job.id);
      return [chip, part("b", "", job.name), part("span", "sub", below)];
    },
  };
}

function runningRow(job, now) {
  const state = job.resizing ? `${{grow: "growing", shrink: "shrinking"}[job.resizing] || "changing its workers"}…` : job.state === "running" ? "" : job.state;
  const left = job.expected_end_s === null ? "" : `at most ${seconds(job.expected_end_s - now)} left`;
  const ran = job.start_s === null ? NOTHING : seconds(now - job.start_s);
  return { key: job.id, cells: [jobCell(job), allotment(job, state), progress(job), pair(ran, left, "short", "ran"), lastResize(job)] };
}

function allotment(job, state) {
  return {
    as: "", label: "nodes",
    say: `${job.min} ${job.held} ${job.max} ${state}`,
    make: () => {
      const track = part("div", "track");
      track.title = `${job.held} of ${span(job.min, job.max)} nodes`;
      const filled = part("div", "fill");
      filled.style.width = percent(job.held / job.max).replace(" ", "");
      filled.style.background = color(job.id);
      track.append(filled);
      if (job.min < job.max) {
        const edge = part("div", "edge");
        edge.style.left = `calc(${(100 * job.min) / job.max}% - 2px)`;
        track.append(edge);
      }
      const words = job.min === job.max ? `${job.held}` : `${job.min} – ${job.held} – ${job.max}`;
      return [`${words} ${state}`, track];
    },
  };
}

function progress(job) {
  if (job.progress === null) return text(NOTHING, "", "progress");
  if (!job.progress_total) return text(`${large(job.progress)} ${job.progress_unit}`, "", "progress");
  const share = Math.min(1, job.progress / job.progress_total);
  return pair(percent(share), `of ${large(job.progress_total)} ${job.progress_unit}`, "", "progress");
}

function lastResize(job) {
  const resize = (job.resizes ?? []).at(-1);
  if (resize === undefined) return text(job.class === "malleable" ? (job.ready ? "none yet" : "takes no orders now") : NOTHING, "text");
  const counts = [job.grows && plural(job.grows, "grow"), job.shrinks && plural(job.shrinks, "shrink")].filter(Boolean).join(", ");
  return {
    as: "text",
    say: JSON.stringify([resize, counts]),
    make: () => [`${did(resize)}${resize.seconds === null ? "" : ` in ${seconds(resize.seconds)}`}`, phases(resize), part("span", "sub", `${clock(model.wall(resize.ordered_s))}${counts ? ` · ${counts}` : ""}`)],
  };
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

function phaseWords(resize) {
  return Object.entries(resize.phases).filter(([, part_s]) => part_s >= 0.0005).map(([name, part_s]) => `${name} ${part_s.toFixed(part_s < 0.1 ? 3 : 2)} s`).join(", ");
}

function queueRow(job, now) {
  const wanted = job.class === "malleable" ? `${span(job.min, job.max)} nodes` : plural(job.wanted, "node");
  const left_s = job.expected_start_s === null ? null : job.expected_start_s - now;
  const starts = left_s === null ? NOTHING : left_s < 0.05 ? "now" : `in ${seconds(left_s)}`;
  const latest = job.expected_start_s === null ? "" : "expected";
  return {
    key: job.id,
    cells: [
      jobCell(job), pair(wanted, `for ${seconds(job.walltime_s)}`, "short", "asks for"), text(seconds(now - job.submit_s), "short", "waits"),
      pair(starts, latest, "short", "starts"), text(job.reason, "text"),
    ],
  };
}

function resizeRow(resize) {
  const bad = resize.outcome !== "done" && resize.outcome !== "pending";
  const took = resize.seconds ?? (resize.done_s === null ? null : resize.done_s - resize.ordered_s);
  const said = [phaseWords(resize), resize.reason].filter(Boolean).join(" · ");
  const words = said ? [phases(resize), part("span", "sub", said)] : [];
  return {
    key: `${resize.job.id}.${resize.order}`,
    cells: [
      text(clock(model.wall(resize.ordered_s)), "short"), jobCell(resize.job),
      { as: bad ? "bad" : "", say: did(resize), make: () => [did(resize)] },
      text(took === null ? "under way" : seconds(took), "short"),
      { as: "text", say: `${resize.why}${said}${resize.outcome}`, make: () => [resize.why, ...words] },
    ],
  };
}

function endedRow(job) {
  return {
    key: job.id,
    cells: [
      text(clock(model.wall(job.end_s)), "short"), jobCell(job),
      { as: job.state === "completed" ? "good" : "bad", say: job.state, make: () => [job.state] },
      text(job.start_s === null ? NOTHING : seconds(job.end_s - job.start_s), "short", "ran"), text(job.reason, "text"),
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
