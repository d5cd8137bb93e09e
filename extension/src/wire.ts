// Written by extension/wire.py from jtrain/domain/messages.py: change it there.

export type Value = number | 'NaN' | 'Infinity' | '-Infinity';

export type Action = 'pause' | 'resume' | 'stop' | 'priority';

/**
 * How much of attempt `attempt` a reader has: points of a series, or bytes of a log.
 */
export interface ICursor {
  attempt: number;
  count: number;
}

/**
 * A process that uses a GPU; `run` is the id of the run of this store that it belongs to.
 */
export interface IProcessRow {
  pid: number;
  memory_bytes: number | null;
  name: string | null;
  user: string | null;
  run: string | null;
}

/**
 * A GPU or MIG slice and what it does now. A reading that couldn't be taken is null; `reasons` says why.
 *
 * `owner` says in words who has it: a run of this store (`owner_run` is its id), another user's run, or a process.
 */
export interface IDeviceRow {
  uuid: string;
  kind: 'gpu' | 'mig';
  label: string;
  name: string;
  is_simulated: boolean;
  is_lost: boolean;
  load_percent: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  temperature_celsius: number | null;
  power_watts: number | null;
  processes: IProcessRow[];
  owner: string;
  owner_run: string | null;
  reasons: { [key: string]: string };
}

/**
 * The machine, or the container's share of it; `cpu_percent` 100: all usable CPUs are busy.
 */
export interface IHostRow {
  cpu_percent: number | null;
  memory_used_bytes: number | null;
  memory_total_bytes: number | null;
  disk_free_bytes: number | null;
  reasons: { [key: string]: string };
}

/**
 * One sample of the machine. `explanation`: where readings come from, and why there are none.
 */
export interface IMachineState {
  time: number;
  host: IHostRow;
  devices: IDeviceRow[];
  explanation: string[];
}

/**
 * Readings of the last minutes, as far as somebody looked: a list per device, each as long as `times`.
 */
export interface IMachineHistory {
  times: number[];
  cpu_percent: (number | null)[];
  memory_used_bytes: (number | null)[];
  load_percent: { [key: string]: (number | null)[] };
  device_memory_used_bytes: { [key: string]: (number | null)[] };
}

/**
 * The devices chosen for the next run, in the sidebar or a GPUPicker.
 */
export interface IChoice {
  uuids: string[];
}

/**
 * How far a run is: optimizer steps, epochs (from 0); `fraction` 0 to 1 or null when unknown.
 */
export interface IProgressRow {
  step: number;
  total_steps: number;
  epoch: number;
  epochs: number;
  fraction: number | null;
  samples_per_s: number | null;
  steps_per_s: number | null;
  eta_s: number | null;
  loss: number | 'NaN' | 'Infinity' | '-Infinity' | null;
}

/**
 * A run in a list. `state` is the state in a word, also `interrupted`; `progress` only for living runs.
 */
export interface IRunRow {
  id: string;
  name: string;
  state: string;
  reason: string;
  created: number;
  ended: number | null;
  attempt: number;
  tags: { [key: string]: string };
  notebook: string;
  priority: number;
  devices: string[];
  progress: IProgressRow | null;
  can_pause: boolean;
  can_resume: boolean;
  can_stop: boolean;
}

/**
 * GET runs: all of the store, newest first.
 */
export interface IRunsAnswer {
  runs: IRunRow[];
}

/**
 * GET sparks?id=A&id=B: each run's main metric as it went, at most 60 values.
 */
export interface ISparksAnswer {
  sparks: { [key: string]: (number | 'NaN' | 'Infinity' | '-Infinity')[] };
}

/**
 * A checkpoint of a run.
 */
export interface ICheckpointRow {
  name: string;
  step: number;
  time: number;
  size_bytes: number | null;
  world_size: number | null;
  is_sound: boolean;
  problem: string;
}

/**
 * A fact of the run's journal.
 */
export interface IEventRow {
  number: number;
  time: number;
  kind: string;
  reason: string;
}

/**
 * GET runs/ID: everything about one run but its series and logs. `spec` and `provenance` are shown as they are.
 */
export interface IRunAnswer {
  run: IRunRow;
  metrics: string[];
  num_ranks: number;
  num_attempts: number;
  events: IEventRow[];
  checkpoints: ICheckpointRow[];
  notices: string[];
  source: string;
  source_name: string;
  options: string;
  error: string;
  spec: { [key: string]: unknown };
  provenance: { [key: string]: unknown };
  folder: string;
}

/**
 * Points of one metric, downsampled when `is_whole` is false (lowest and highest of each stretch stay).
 *
 * `count` is the number of points there are between the asked ends; `cursor` is where the stream goes on.
 */
export interface ISeriesRow {
  name: string;
  steps: number[];
  times: number[];
  values: (number | 'NaN' | 'Infinity' | '-Infinity')[];
  count: number;
  is_whole: boolean;
  cursor: ICursor;
}

/**
 * GET runs/ID/metrics?name=A&name=B&max_points=2000[&axis=step|time&from=X&to=Y]: all metrics without a name.
 */
export interface IMetricsAnswer {
  series: ISeriesRow[];
}

/**
 * GET runs/ID/samples?max_points=1000: readings of the run's devices (`cpu` for a run on the CPU), over all
 * attempts. `labels` names them.
 */
export interface ISamplesAnswer {
  times: number[];
  labels: { [key: string]: string };
  load_percent: { [key: string]: (number | null)[] };
  memory_used_bytes: { [key: string]: (number | null)[] };
  memory_total_bytes: { [key: string]: number | null };
}

/**
 * GET runs/ID/logs?rank=0&lines=1000: the end of a rank's log, colours (SGR escape codes) still in it.
 *
 * `skipped` says whether older lines were left out; the stream goes on from `cursor`.
 */
export interface ILogAnswer {
  rank: number;
  text: string;
  skipped: boolean;
  cursor: ICursor;
}

/**
 * POST runs/ID/actions. `checkpoint` is for resume, `priority` for priority.
 */
export interface IActionWish {
  action: 'pause' | 'resume' | 'stop' | 'priority';
  checkpoint?: string;
  priority?: number;
}

/**
 * What was done, in a sentence. `run` is another one than was asked for when a resume made a new run.
 */
export interface IActionAnswer {
  run: string;
  text: string;
}

/**
 * The body of every answer that isn't 2xx: a sentence for the user.
 */
export interface IProblemAnswer {
  message: string;
}

/**
 * What the browser wants to see from now on; each wish replaces the one before.
 *
 * `machine`: samples once a second. `runs`: changes of the list. `run_ids`: the runs to follow; for each, series go on
 * from the cursors in `series` (a metric without one from its beginning, downsampled), logs of the ranks in `logs`.
 */
export interface IWatchWish {
  type: 'watch';
  machine: boolean;
  runs: boolean;
  follow: IFollowWish[];
}

/**
 * One run to follow. `metrics` null: all of them.
 */
export interface IFollowWish {
  run: string;
  metrics: string[] | null;
  series: { [key: string]: ICursor };
  logs: { [key: string]: ICursor };
  samples: boolean;
}

/**
 * The first message of a connection. `server` changes when the server was started anew. `notebook_dir`: the folder
 * that paths in the browser start from; empty when it is no folder of this machine.
 */
export interface IHelloMessage {
  type: 'hello';
  seq: number;
  server: string;
  notebook_dir: string;
  version: string;
  time: number;
}

/**
 * A sample of the machine; `history` comes once after a wish.
 */
export interface IMachineMessage {
  type: 'machine';
  seq: number;
  machine: IMachineState;
  history: IMachineHistory | null;
}

/**
 * Runs that are new or have changed, and ids that are gone. `is_all`: forget what you knew.
 */
export interface IRunsMessage {
  type: 'runs';
  seq: number;
  is_all: boolean;
  runs: IRunRow[];
  removed: string[];
}

/**
 * New points of a followed run. `restart`: metrics whose points are to be forgotten first, because an attempt
 * went on from an earlier step; the browser then asks for them anew. `after` is the cursor the points follow on.
 */
export interface IPointsMessage {
  type: 'points';
  seq: number;
  run: string;
  restart: string[];
  series: IPointsRow[];
}

/**
 * Points of one metric that come after the reader's cursor `after`; `cursor` is the new one.
 */
export interface IPointsRow {
  name: string;
  after: ICursor;
  cursor: ICursor;
  steps: number[];
  times: number[];
  values: (number | 'NaN' | 'Infinity' | '-Infinity')[];
}

/**
 * New text of a rank's log, after the reader's cursor `after`. `skipped_bytes` before it were left out.
 */
export interface ILogMessage {
  type: 'log';
  seq: number;
  run: string;
  rank: number;
  text: string;
  skipped_bytes: number;
  after: ICursor;
  cursor: ICursor;
}

/**
 * New readings of the devices of a followed run, as in SamplesAnswer.
 */
export interface ISamplesMessage {
  type: 'samples';
  seq: number;
  run: string;
  samples: ISamplesAnswer;
}

/**
 * A followed run's checkpoints, events or metric names have changed: ask for GET runs/ID again.
 */
export interface IDetailMessage {
  type: 'detail';
  seq: number;
  run: string;
}

/**
 * A followed run was deleted.
 */
export interface IGoneMessage {
  type: 'gone';
  seq: number;
  run: string;
}

/**
 * The devices chosen for the next run have changed.
 */
export interface IChoiceMessage {
  type: 'choice';
  seq: number;
  choice: IChoice;
}

/**
 * A wish that couldn't be understood or done.
 */
export interface IRefusalMessage {
  type: 'refusal';
  seq: number;
  message: string;
}

export type StreamMessage =
  | IHelloMessage
  | IMachineMessage
  | IRunsMessage
  | IPointsMessage
  | ILogMessage
  | ISamplesMessage
  | IDetailMessage
  | IGoneMessage
  | IChoiceMessage
  | IRefusalMessage;
