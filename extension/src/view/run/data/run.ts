import { IDisposable } from '@lumino/disposable';
import { ISignal, Signal } from '@lumino/signaling';
import { MetricSeries } from '../../../model/series';
import { StepClock } from '../../../model/sources';
import { ConnectionState, IJtrain, IJtrainStream } from '../../../tokens';
import { IFollowWish, IRunAnswer, IRunRow, StreamMessage } from '../../../wire';
import { LogFeed } from './logfeed';
import { Points } from './points';
import { Readings } from './readings';

/** What of the extension the data of a run come from. */
export type RunSource = Pick<IJtrain, 'api' | 'stream' | 'settings'>;

/** Where the knowledge about a run stands. `gone`: it was deleted. */
export type RunPhase = 'loading' | 'ready' | 'failed' | 'gone';

/** Not more often than this are the facts of a run fetched, in milliseconds. */
const FACTS_PAUSE_MS = 500;

/**
 * Everything the browser knows about one run, kept up by the stream. All views of the run share it: `acquireRun`.
 */
export class RunData implements IDisposable {
  constructor(
    private readonly _jtrain: RunSource,
    readonly id: string
  ) {
    const { api, stream, settings } = _jtrain;
    this.points = new Points(api, id, settings.maxPoints);
    this.readings = new Readings(api, id);
    this.logs = new LogFeed(api, id);
    stream.message.connect(this._onMessage, this);
    stream.stateChanged.connect(this._onConnection, this);
    const wish = { runs: true, follow: () => [this._wish()] };
    const watch = stream.watch(wish);
    this._watch = watch;
    const update = () => watch.update(wish);
    this.points.loaded.connect(update);
    this.logs.loaded.connect(update);
    void this.refresh();
  }

  readonly points: Points;
  readonly readings: Readings;
  readonly logs: LogFeed;

  get phase(): RunPhase {
    return this._phase;
  }

  /** Why the run couldn't be fetched. */
  get problem(): string {
    return this._problem;
  }

  /** Everything but series and logs, as it was when fetched last; null before. */
  get facts(): IRunAnswer | null {
    return this._facts;
  }

  /** The run as the list of runs shows it: newer than `facts`. */
  get row(): IRunRow | null {
    return this._row;
  }

  get name(): string {
    return this._row?.name || this.id;
  }

  /** When the run began, in UTC epoch seconds: zero of its time axis. */
  get origin(): number {
    return this._origin;
  }

  /** Phase, facts or row have changed. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  /** Tells steps from times by the metric that has the most points; null when no metric can. */
  get clock(): StepClock | null {
    let best: MetricSeries | null = null;
    for (const series of this.points.series.values()) {
      if (series.isMonotone && series.length > (best?.length ?? 1)) {
        best = series;
      }
    }
    return best && new StepClock(best, this.origin);
  }

  /** Fetch the facts anew. */
  async refresh(): Promise<void> {
    try {
      const isFirst = this._facts === null;
      this._facts = await this._jtrain.api.run(this.id);
      this._row = this._facts.run;
      this._origin ||= originOf(this._facts);
      this._phase = 'ready';
      this._problem = '';
      if (isFirst) {
        await this.readings.load();
      }
    } catch (error) {
      this._fail(error);
    }
    this._changed.emit();
  }

  dispose(): void {
    if (!this._isDisposed) {
      this._isDisposed = true;
      window.clearTimeout(this._timer);
      this._watch.dispose();
      Signal.disconnectReceiver(this);
      Signal.clearData(this);
    }
  }

  private _fail(error: unknown): void {
    this._problem = error instanceof Error ? error.message : String(error);
    const status = (error as { status?: number }).status;
    if (status === 404 && this._jtrain.stream.state !== 'missing') {
      this._phase = 'gone';
    } else if (this._phase === 'loading') {
      this._phase = 'failed';
    }
  }

  private _wish(): IFollowWish {
    const series = this.points.cursors;
    return {
      run: this.id,
      metrics: Object.keys(series),
      series,
      logs: this.logs.cursors,
      samples: true
    };
  }

  private _onConnection(_: IJtrainStream, state: ConnectionState): void {
    if (state === 'live' && this._phase !== 'loading') {
      // Points and logs go on from their cursors; facts and readings have none.
      void this.refresh();
      this.logs.retry();
      if (this._facts) {
        this.readings.load().catch(error => this._fail(error));
      }
    }
    this._changed.emit();
  }

  private _onMessage(_: IJtrainStream, message: StreamMessage): void {
    if (message.type === 'runs') {
      this._onRuns(message.runs, message.removed);
    }
    if (!('run' in message) || message.run !== this.id) {
      return;
    }
    switch (message.type) {
      case 'points':
        this.points.apply(message);
        break;
      case 'log':
        this.logs.apply(message);
        break;
      case 'samples':
        this.readings.apply(message.samples);
        break;
      case 'detail':
        this._refreshSoon();
        break;
      case 'gone':
        this._onGone();
        break;
    }
  }

  private _onRuns(rows: IRunRow[], removed: string[]): void {
    const row = rows.find(candidate => candidate.id === this.id);
    if (removed.includes(this.id)) {
      this._onGone();
    } else if (row) {
      const isNewState = row.state !== this._row?.state;
      this._row = row;
      if (isNewState && this._facts) {
        this._refreshSoon();
      }
      this._changed.emit();
    }
  }

  private _onGone(): void {
    this._phase = 'gone';
    this._changed.emit();
  }

  private _refreshSoon(): void {
    if (!this._timer) {
      this._timer = window.setTimeout(() => {
        this._timer = 0;
        void this.refresh();
      }, FACTS_PAUSE_MS);
    }
  }

  private _phase: RunPhase = 'loading';
  private _problem = '';
  private _facts: IRunAnswer | null = null;
  private _row: IRunRow | null = null;
  private _origin = 0;
  private _timer = 0;
  private _isDisposed = false;
  private _watch: IDisposable;
  private _changed = new Signal<this, void>(this);
}

/** When a run's first attempt started; before that, when the run was made. */
function originOf({ run, events }: IRunAnswer): number {
  const start = events.find(event => event.kind === 'starting');
  return start?.time ?? run.created;
}

interface IShared {
  data: RunData;
  uses: number;
}

const shared = new WeakMap<object, Map<string, IShared>>();

/** The data of run `id`, the same for all views; to be given back with `releaseRun`. */
export function acquireRun(jtrain: RunSource, id: string): RunData {
  const runs = shared.get(jtrain.stream) ?? new Map<string, IShared>();
  shared.set(jtrain.stream, runs);
  const entry = runs.get(id) ?? { data: new RunData(jtrain, id), uses: 0 };
  entry.uses++;
  runs.set(id, entry);
  return entry.data;
}

/** Say that a view needs `data` no more. */
export function releaseRun(
  jtrain: Pick<IJtrain, 'stream'>,
  data: RunData
): void {
  const runs = shared.get(jtrain.stream);
  const entry = runs?.get(data.id);
  if (runs && entry?.data === data && --entry.uses === 0) {
    runs.delete(data.id);
    data.dispose();
  }
}
