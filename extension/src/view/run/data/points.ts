import { ISignal, Signal } from '@lumino/signaling';
import { Axis, MetricSeries } from '../../../model/series';
import { Range } from '../../../model/viewport';
import { IJtrainApi } from '../../../tokens';
import { ICursor, IPointsMessage, IPointsRow, ISeriesRow } from '../../../wire';
import { join } from './join';

/** Points of one series that are fetched at once unless told otherwise: some for each pixel of a wide screen. */
const MAX_POINTS = 4_000;

/** Metrics of one request: names are long sometimes, addresses can't be. */
const BATCH = 6;

/**
 * The series of one run that somebody has looked at: fetched when first wanted, then kept up by the stream.
 */
export class Points {
  constructor(
    private readonly _api: Pick<IJtrainApi, 'metrics'>,
    private readonly _id: string,
    private readonly _maxPoints = MAX_POINTS
  ) {}

  /** The series that are here, by the metric's name. */
  readonly series = new Map<string, MetricSeries>();

  /** Points have come. */
  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** A series has come that wasn't here, or anew: where the stream has to go on has changed. */
  get loaded(): ISignal<this, void> {
    return this._loaded;
  }

  /** What went wrong with the last request; empty when nothing did. */
  problem = '';

  /** Where the stream goes on, for each series that is here. */
  get cursors(): { [name: string]: ICursor } {
    const cursors: { [name: string]: ICursor } = {};
    for (const [name, series] of this.series) {
      if (series.cursor) {
        cursors[name] = series.cursor;
      }
    }
    return cursors;
  }

  /** Fetch what isn't here of `names`. */
  want(names: Iterable<string>): void {
    const lacking = [...names].filter(
      name => !this.series.has(name) && !this._waiting.has(name)
    );
    if (lacking.length) {
      void this._load(lacking);
    }
  }

  /** Take in what the stream brought. */
  apply(message: IPointsMessage): void {
    const again = message.restart.filter(name => this.series.has(name));
    if (again.length) {
      void this._load(again);
    }
    for (const row of message.series) {
      const waiting = this._waiting.get(row.name);
      if (waiting) {
        waiting.push(row);
      } else {
        this._join(row);
      }
    }
    this._changed.emit();
  }

  /** The points of a part of a series, `ends` in the unit of `axis` (time: UTC epoch seconds). */
  async detail(name: string, axis: Axis, ends: Range): Promise<MetricSeries> {
    const [from, to] = ends;
    const answer = await this._api.metrics(this._id, {
      names: [name],
      maxPoints: this._maxPoints,
      axis,
      from,
      to
    });
    const row = answer.series.find(series => series.name === name);
    return row ? seriesOf(row) : new MetricSeries(name);
  }

  /** The whole series of a metric, or `maxPoints` of it. */
  async whole(name: string, maxPoints: number): Promise<MetricSeries> {
    const known = this.series.get(name);
    if (known?.isWhole) {
      return known;
    }
    const answer = await this._api.metrics(this._id, {
      names: [name],
      maxPoints
    });
    const row = answer.series.find(series => series.name === name);
    return row ? seriesOf(row) : new MetricSeries(name);
  }

  private _join(row: IPointsRow): void {
    const series = this.series.get(row.name);
    if (series && !join(series, row)) {
      void this._load([row.name]);
    }
  }

  private async _load(names: string[]): Promise<void> {
    // What the stream brings meanwhile comes after the answer, or is in it.
    names.forEach(name => this._waiting.set(name, []));
    for (let start = 0; start < names.length; start += BATCH) {
      await this._loadBatch(names.slice(start, start + BATCH));
    }
  }

  private async _loadBatch(names: string[]): Promise<void> {
    try {
      const answer = await this._api.metrics(this._id, {
        names,
        maxPoints: this._maxPoints
      });
      answer.series.forEach(row => this.series.set(row.name, seriesOf(row)));
      this.problem = '';
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    const rows = names.flatMap(name => this._waiting.get(name) ?? []);
    names.forEach(name => this._waiting.delete(name));
    rows.forEach(row => this._join(row));
    this._loaded.emit();
    this._changed.emit();
  }

  private _waiting = new Map<string, IPointsRow[]>();
  private _changed = new Signal<this, void>(this);
  private _loaded = new Signal<this, void>(this);
}

function seriesOf(row: ISeriesRow): MetricSeries {
  const series = new MetricSeries(row.name);
  series.append(row.steps, row.times, row.values, row.count);
  series.isWhole = row.is_whole;
  series.cursor = row.cursor;
  return series;
}
