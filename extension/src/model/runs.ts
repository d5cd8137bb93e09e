import { ISignal, Signal } from '@lumino/signaling';
import { IJtrainApi, IJtrainStream } from '../tokens';
import { IRunRow, StreamMessage, Value } from '../wire';

const LIVING = new Set(['queued', 'starting', 'running', 'pausing']);
const ENDED = new Set(['finished', 'failed', 'interrupted']);
/** The sparkline of a living run is asked for again after this many milliseconds. */
const SPARK_AGE_MS = 10000;

/** A run that ended while the page was looking. */
export interface IEnding {
  run: IRunRow;
  before: string;
}

/** What the list of runs is narrowed to; empty texts match everything. */
export interface IFilter {
  text: string;
  state: string;
  notebook: string;
  tag: string;
}

export const NO_FILTER: IFilter = {
  text: '',
  state: '',
  notebook: '',
  tag: ''
};

export function isLiving(run: IRunRow): boolean {
  return LIVING.has(run.state);
}

/** All runs of the store, newest first, as the stream tells them. */
export class RunsModel {
  constructor(
    private readonly _api: IJtrainApi,
    stream: IJtrainStream
  ) {
    stream.message.connect((_, message) => this._hear(message));
  }

  /** Whether the list has come. */
  get isLoaded(): boolean {
    return this._isLoaded;
  }

  get rows(): readonly IRunRow[] {
    this._sorted ??= [...this._rows.values()].sort(
      (a, b) => b.created - a.created || (a.id < b.id ? -1 : 1)
    );
    return this._sorted;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Emitted when a run finishes or fails that was alive when it was seen last. */
  get ended(): ISignal<this, IEnding> {
    return this._ended;
  }

  get(id: string): IRunRow | undefined {
    return this._rows.get(id);
  }

  /** A run's notebook as JupyterLab names it; `null` when it is outside of what the server shows. */
  notebookPath(run: IRunRow): string | null {
    const folder = this._notebookDir.replace(/\/*$/, '/');
    if (!run.notebook.startsWith('/')) {
      return run.notebook || null;
    }
    return folder !== '/' && run.notebook.startsWith(folder)
      ? run.notebook.slice(folder.length)
      : null;
  }

  get numLiving(): number {
    return this.rows.filter(isLiving).length;
  }

  /** The run's main metric as it went; empty until it has been asked for. */
  spark(id: string): Value[] {
    return this._sparks.get(id)?.values ?? [];
  }

  /** Ask for the sparklines of the runs that are on the screen, as far as they aren't known or have grown old. */
  async wantSparks(ids: readonly string[]): Promise<void> {
    const now = Date.now();
    const due = ids.filter(id => {
      const spark = this._sparks.get(id);
      const run = this._rows.get(id);
      return (
        run &&
        (!spark ||
          spark.state !== run.state ||
          (isLiving(run) && now - spark.time > SPARK_AGE_MS))
      );
    });
    if (!due.length) {
      return;
    }
    for (const id of due) {
      const state = this._rows.get(id)?.state ?? '';
      this._sparks.set(id, { values: this.spark(id), time: now, state });
    }
    try {
      const { sparks } = await this._api.sparks(due);
      for (const [id, values] of Object.entries(sparks)) {
        const state = this._rows.get(id)?.state ?? '';
        this._sparks.set(id, { values, time: now, state });
      }
    } catch {
      // They are asked for again when the list changes.
      due.forEach(id => this._sparks.delete(id));
    }
    this._changed.emit();
  }

  private _hear(message: StreamMessage): void {
    if (message.type === 'hello') {
      this._notebookDir = message.notebook_dir;
    }
    if (message.type !== 'runs') {
      return;
    }
    const before = this._rows;
    if (message.is_all) {
      this._rows = new Map();
    }
    for (const run of message.runs) {
      const known = before.get(run.id);
      this._rows.set(run.id, run);
      if (known && LIVING.has(known.state) && ENDED.has(run.state)) {
        this._ended.emit({ run, before: known.state });
      }
    }
    for (const id of message.removed) {
      this._rows.delete(id);
      this._sparks.delete(id);
    }
    this._sorted = null;
    this._isLoaded = true;
    this._changed.emit();
  }

  private _rows = new Map<string, IRunRow>();
  private _sorted: readonly IRunRow[] | null = null;
  private _isLoaded = false;
  private _notebookDir = '';
  private readonly _sparks = new Map<
    string,
    { values: Value[]; time: number; state: string }
  >();
  private readonly _changed = new Signal<this, void>(this);
  private readonly _ended = new Signal<this, IEnding>(this);
}

/** The runs that a filter leaves; text is looked for in names, ids, tags and notebooks, whatever its case. */
export function filtered(
  rows: readonly IRunRow[],
  filter: IFilter
): readonly IRunRow[] {
  const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
  if (!words.length && !filter.state && !filter.notebook && !filter.tag) {
    return rows;
  }
  return rows.filter(run => {
    if (filter.state && run.state !== filter.state) {
      return false;
    }
    if (filter.notebook && run.notebook !== filter.notebook) {
      return false;
    }
    const tags = Object.entries(run.tags).map(
      ([key, value]) => `${key}=${value}`
    );
    if (filter.tag && !tags.includes(filter.tag)) {
      return false;
    }
    const text = [run.id, run.name, run.notebook, ...tags]
      .join(' ')
      .toLowerCase();
    return words.every(word => text.includes(word));
  });
}

/** What the rows can be narrowed by: their states, notebooks and tags, each once, in order. */
export function choices(rows: readonly IRunRow[]): {
  states: string[];
  notebooks: string[];
  tags: string[];
} {
  const states = new Set<string>();
  const notebooks = new Set<string>();
  const tags = new Set<string>();
  for (const run of rows) {
    states.add(run.state);
    if (run.notebook) {
      notebooks.add(run.notebook);
    }
    for (const [key, value] of Object.entries(run.tags)) {
      tags.add(`${key}=${value}`);
    }
  }
  return {
    states: [...states].sort(),
    notebooks: [...notebooks].sort(),
    tags: [...tags].sort()
  };
}
