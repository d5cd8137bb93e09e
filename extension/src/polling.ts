import { IJtrainApi, IPartialWish } from './tokens';
import { StreamMessage } from './wire';

const EVERY_MS = 3000;

/**
 * What there is without a socket (a proxy may cut it): the same messages, made of what the REST routes answer every
 * few seconds. Logs don't move meanwhile.
 */
export class Polling {
  constructor(
    private readonly _api: IJtrainApi,
    private readonly _wishes: () => IPartialWish[],
    private readonly _emit: (message: StreamMessage) => void
  ) {}

  get isOn(): boolean {
    return this._timer !== 0;
  }

  start(): void {
    if (!this._timer) {
      this._timer = window.setInterval(() => void this._ask(), EVERY_MS);
      void this._ask();
    }
  }

  stop(): void {
    window.clearInterval(this._timer);
    this._timer = 0;
  }

  private async _ask(): Promise<void> {
    if (this._isBusy || document.hidden) {
      return;
    }
    this._isBusy = true;
    try {
      await this._askAll(this._wishes());
    } catch {
      // The server is away as well: the stream finds that out when it tries again.
    } finally {
      this._isBusy = false;
    }
  }

  private async _askAll(wishes: IPartialWish[]): Promise<void> {
    const seq = 0;
    if (wishes.some(wish => wish.machine)) {
      const machine = await this._api.machine();
      this._tell({ type: 'machine', seq, machine, history: null });
      const choice = await this._api.choice();
      this._tell({ type: 'choice', seq, choice });
    }
    if (wishes.some(wish => wish.runs)) {
      const { runs } = await this._api.runs();
      this._tell({ type: 'runs', seq, is_all: true, runs, removed: [] });
    }
    for (const wish of wishes.flatMap(part => part.follow?.() ?? [])) {
      const restart = Object.keys(wish.series);
      this._tell({ type: 'points', seq, run: wish.run, restart, series: [] });
      this._tell({ type: 'detail', seq, run: wish.run });
    }
  }

  private _tell(message: StreamMessage): void {
    if (this._timer) {
      this._emit(message);
    }
  }

  private _timer = 0;
  private _isBusy = false;
}
