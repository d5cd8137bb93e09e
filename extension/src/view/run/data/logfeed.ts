import { ISignal, Signal } from '@lumino/signaling';
import { LogBuffer } from '../../../model/logs';
import { IJtrainApi } from '../../../tokens';
import { ICursor, ILogMessage } from '../../../wire';
import { isSameCursor } from './join';

/** Lines that are fetched when a log is opened. */
const LINES = 2_000;

interface IRankLog {
  buffer: LogBuffer;
  cursor: ICursor | null;

  /** What came from the stream while the log was fetched. */
  waiting: ILogMessage[] | null;
}

/**
 * The logs of a run's ranks that somebody has opened.
 */
export class LogFeed {
  constructor(
    private readonly _api: Pick<IJtrainApi, 'logs'>,
    private readonly _id: string
  ) {}

  /** Text of a rank has come. */
  get changed(): ISignal<this, number> {
    return this._changed;
  }

  /** A log was fetched: where the stream has to go on has changed. */
  get loaded(): ISignal<this, void> {
    return this._loaded;
  }

  problem = '';

  get cursors(): { [rank: string]: ICursor } {
    const cursors: { [rank: string]: ICursor } = {};
    for (const [rank, log] of this._logs) {
      if (log.cursor) {
        cursors[String(rank)] = log.cursor;
      }
    }
    return cursors;
  }

  /** The log of `rank`; null until it was fetched. */
  buffer(rank: number): LogBuffer | null {
    return this._logs.get(rank)?.buffer ?? null;
  }

  /** Follow the log of `rank` for one more view. */
  open(rank: number): void {
    this._uses.set(rank, (this._uses.get(rank) ?? 0) + 1);
    this.retry();
  }

  /** One view needs the log of `rank` no more; without any it is forgotten. */
  close(rank: number): void {
    const uses = (this._uses.get(rank) ?? 0) - 1;
    if (uses > 0) {
      this._uses.set(rank, uses);
      return;
    }
    this._uses.delete(rank);
    this._logs.delete(rank);
    this._loaded.emit();
  }

  /** Fetch the logs that somebody wants and that couldn't be had. */
  retry(): void {
    for (const rank of this._uses.keys()) {
      if (!this._logs.has(rank)) {
        void this._load(rank);
      }
    }
  }

  apply(message: ILogMessage): void {
    const log = this._logs.get(message.rank);
    if (log?.waiting) {
      log.waiting.push(message);
    } else if (log) {
      this._join(log, message);
      this._changed.emit(message.rank);
    }
  }

  private _join(log: IRankLog, message: ILogMessage): void {
    const { after, cursor } = message;
    const own = log.cursor;
    const isKnown =
      own &&
      (own.attempt > cursor.attempt ||
        (own.attempt === cursor.attempt && own.count >= cursor.count));
    if (isKnown) {
      return;
    }
    const text = isSameCursor(own, after)
      ? message.text
      : own && unknownPart(message, own);
    if (text === null) {
      void this._load(message.rank);
      return;
    }
    if (message.skipped_bytes) {
      log.buffer.append(`\n… ${message.skipped_bytes} bytes …\n`);
    }
    log.buffer.append(text);
    log.cursor = cursor;
  }

  private async _load(rank: number): Promise<void> {
    const log = this._logs.get(rank) ?? {
      buffer: new LogBuffer(),
      cursor: null,
      waiting: null
    };
    log.waiting = [];
    this._logs.set(rank, log);
    try {
      const answer = await this._api.logs(this._id, rank, LINES);
      log.buffer = new LogBuffer();
      log.buffer.isCut = answer.skipped;
      log.buffer.append(answer.text);
      log.cursor = answer.cursor;
      this.problem = '';
    } catch (error) {
      this.problem = error instanceof Error ? error.message : String(error);
    }
    const { waiting } = log;
    log.waiting = null;
    // Without a cursor the log wasn't fetched, and a later opening tries again.
    if (log.cursor && this._uses.has(rank)) {
      waiting.forEach(message => this._join(log, message));
    } else {
      this._logs.delete(rank);
    }
    this._loaded.emit();
    this._changed.emit(rank);
  }

  private _logs = new Map<number, IRankLog>();
  private _uses = new Map<number, number>();
  private _changed = new Signal<this, number>(this);
  private _loaded = new Signal<this, void>(this);
}

/** What of a message lies after `own`; null when that can't be told. */
function unknownPart(message: ILogMessage, own: ICursor): string | null {
  const { after, cursor, text } = message;
  const bytes = new TextEncoder().encode(text);
  const isExact =
    after.attempt === cursor.attempt &&
    own.attempt === after.attempt &&
    own.count > after.count &&
    bytes.length === cursor.count - after.count;
  return isExact
    ? new TextDecoder().decode(bytes.subarray(own.count - after.count))
    : null;
}
