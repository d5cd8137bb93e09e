import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { ISignal, Signal } from '@lumino/signaling';
import { API } from './api';
import { Polling } from './polling';
import {
  ConnectionState,
  IJtrainApi,
  IJtrainStream,
  IPartialWish,
  IWatch
} from './tokens';
import { merged } from './model/wishes';
import { IWatchWish, StreamMessage } from './wire';

const FIRST_DELAY_MS = 300;
const LONGEST_DELAY_MS = 15000;
const FAILURES_BEFORE_POLLING = 3;

/**
 * The page's one socket. It is open while somebody watches, and comes back by itself; every wish carries the cursors of
 * what the views have, so nothing is lost or repeated in between.
 */
export class Stream implements IJtrainStream {
  constructor(
    private readonly _settings: ServerConnection.ISettings,
    api: IJtrainApi
  ) {
    this._polling = new Polling(
      api,
      () => [...this._wishes.values()],
      message => this._message.emit(message)
    );
    window.addEventListener('online', () => this.reconnect());
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        this.reconnect();
      }
    });
  }

  get state(): ConnectionState {
    return this._state;
  }

  get stateChanged(): ISignal<IJtrainStream, ConnectionState> {
    return this._stateChanged;
  }

  get lostSince(): number {
    return this._lostSince;
  }

  get isPolling(): boolean {
    return this._polling.isOn;
  }

  get message(): ISignal<IJtrainStream, StreamMessage> {
    return this._message;
  }

  watch(wish: IPartialWish): IWatch {
    const wishes = this._wishes;
    const key = {};
    wishes.set(key, wish);
    this._changed();
    return {
      get isDisposed(): boolean {
        return !wishes.has(key);
      },
      update: next => {
        if (wishes.has(key)) {
          wishes.set(key, next);
          this._changed();
        }
      },
      dispose: () => {
        if (wishes.delete(key)) {
          this._changed();
        }
      }
    };
  }

  reconnect(): void {
    if (this._wishes.size && !this._socket) {
      this._delay = FIRST_DELAY_MS;
      this._connect();
    }
  }

  /** Wishes that change in the same turn of the page are sent as one. */
  private _changed(): void {
    if (this._isDue) {
      return;
    }
    this._isDue = true;
    queueMicrotask(() => {
      this._isDue = false;
      if (!this._wishes.size) {
        this._hangUp();
      } else if (!this._socket && !this._timer) {
        this._connect();
      } else {
        this._send();
      }
    });
  }

  private _connect(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    const { wsUrl, token, appendToken, WebSocket } = this._settings;
    const query =
      appendToken && token ? `?token=${encodeURIComponent(token)}` : '';
    const socket = new WebSocket(URLExt.join(wsUrl, API, 'stream') + query);
    this._socket = socket;
    this._seq = 0;
    socket.onopen = () => {
      this._delay = FIRST_DELAY_MS;
      this._lostSince = 0;
      this._numFailures = 0;
      this._polling.stop();
      this._setState('live');
      this._send();
    };
    socket.onmessage = event => this._hear(socket, String(event.data));
    socket.onclose = () => this._lose(socket);
  }

  private _hear(socket: WebSocket, data: string): void {
    if (socket !== this._socket) {
      return;
    }
    const message = JSON.parse(data) as StreamMessage;
    if (message.seq !== this._seq + 1) {
      // Something was lost on the way: begin anew from the cursors.
      socket.close();
      return;
    }
    this._seq = message.seq;
    this._message.emit(message);
  }

  private _lose(socket: WebSocket): void {
    if (socket !== this._socket) {
      return;
    }
    this._socket = null;
    this._lostSince ||= Date.now();
    this._numFailures++;
    this._timer = window.setTimeout(() => this._connect(), this._delay);
    this._delay = Math.min(2 * this._delay, LONGEST_DELAY_MS);
    void this._explain();
  }

  /** Whether the server is away, or is there but doesn't know the extension. */
  private async _explain(): Promise<void> {
    let state: ConnectionState = 'lost';
    try {
      const url = URLExt.join(this._settings.baseUrl, API, 'choice');
      const { makeRequest } = ServerConnection;
      const response = await makeRequest(url, {}, this._settings);
      if (response.status === 404) {
        state = 'missing';
      } else if (response.ok && this._numFailures >= FAILURES_BEFORE_POLLING) {
        // The server is there, and it is only the socket that doesn't get through.
        this._polling.start();
      }
    } catch {
      state = 'lost';
    }
    if (this._lostSince) {
      this._state = state;
      this._stateChanged.emit(state);
    }
  }

  private _hangUp(): void {
    window.clearTimeout(this._timer);
    this._timer = 0;
    const socket = this._socket;
    this._socket = null;
    this._lostSince = 0;
    this._numFailures = 0;
    this._polling.stop();
    socket?.close();
    this._setState('connecting');
  }

  private _send(): void {
    if (this._socket?.readyState !== 1) {
      return;
    }
    const parts = [...this._wishes.values()];
    const wish: IWatchWish = {
      type: 'watch',
      machine: parts.some(part => part.machine),
      runs: parts.some(part => part.runs),
      follow: merged(parts.flatMap(part => part.follow?.() ?? []))
    };
    this._socket.send(JSON.stringify(wish));
  }

  private _setState(state: ConnectionState): void {
    if (state !== this._state) {
      this._state = state;
      this._stateChanged.emit(state);
    }
  }

  private _state: ConnectionState = 'connecting';
  private readonly _stateChanged = new Signal<this, ConnectionState>(this);
  private readonly _message = new Signal<this, StreamMessage>(this);
  private readonly _wishes = new Map<object, IPartialWish>();
  private _socket: WebSocket | null = null;
  private _timer = 0;
  private _delay = FIRST_DELAY_MS;
  private _lostSince = 0;
  private _numFailures = 0;
  private readonly _polling: Polling;
  private _seq = 0;
  private _isDue = false;
}
