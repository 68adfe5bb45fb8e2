// The cluster as the server describes it, and what can be asked about it. Times are seconds on the daemon's clock.

export class Model {
  constructor() {
    this.state = null;
    this.heardAt = 0;
    this.origin = 0;
  }

  full(state) {
    this.state = state;
    this.heardAt = performance.now();
    this.origin = Date.now() - 1000 * state.now_s;
  }

  change(part) {
    if (this.state === null) return;
    const { jobs, ...rest } = part;
    Object.assign(this.state, rest);
    for (const [number, job] of Object.entries(jobs ?? {})) {
      if (job === null) delete this.state.jobs[number];
      else this.state.jobs[number] = job;
    }
    this.heardAt = performance.now();
  }

  silence() {
    return (performance.now() - this.heardAt) / 1000;
  }

  // The daemon's clock now: it goes on between two events, but not for ever once nothing is heard any more.
  now() {
    return this.state.now_s + Math.min(this.silence(), 5);
  }

  // The browser's time of day then; always the same for the same moment.
  wall(time_s) {
    return new Date(this.origin + 1000 * time_s);
  }

  jobs() {
    return Object.entries(this.state.jobs).map(([number, job]) => ({ id: Number(number), ...job }));
  }

  // Every order of the window with its job, the latest first.
  resizes(jobs) {
    const since = this.state.now_s - this.state.window_s;
    return jobs
      .flatMap((job) => (job.resizes ?? []).map((resize) => ({ job, ...resize })))
      .filter((resize) => (resize.done_s ?? Infinity) > since)
      .sort((a, b) => b.ordered_s - a.ordered_s || b.order - a.order);
  }
}

// Nodes held by jobs, as steps [since when, how many].
export function busySteps(jobs, now) {
  const changes = [];
  for (const job of jobs) {
    for (const [from, to, ranges, share] of job.segments ?? []) {
      const count = (share ?? 1) * ranges.reduce((sum, [first, last]) => sum + last - first + 1, 0);
      changes.push([from, count], [to ?? now, -count]);
    }
  }
  return steps(changes);
}

// Jobs that were submitted and had not started, likewise; `unlisted` are waiting ones that the server only counts.
export function waitingSteps(jobs, unlisted, now) {
  const changes = unlisted.map(([at, count]) => [at, count]);
  for (const job of jobs) {
    const until = job.start_s ?? job.end_s ?? now;
    changes.push([job.submit_s, 1], [until, -1]);
  }
  return steps(changes);
}

function steps(changes) {
  changes.sort((a, b) => a[0] - b[0]);
  const found = [];
  let level = 0;
  for (const [at, delta] of changes) {
    level += delta;
    if (found.length && found[found.length - 1][0] === at) found[found.length - 1][1] = level;
    else found.push([at, level]);
  }
  return found;
}

// The mean of steps between two times, and their highest level there.
export function measure(found, from, to) {
  let area = 0;
  let highest = 0;
  found.forEach(([at, level], index) => {
    const begin = Math.max(at, from);
    const end = Math.min(found[index + 1]?.[0] ?? to, to);
    if (end > begin) {
      area += level * (end - begin);
      highest = Math.max(highest, level);
    }
  });
  return { mean: to > from ? area / (to - from) : 0, highest };
}
