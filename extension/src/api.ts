import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';
import { IJtrainApi, IMetricsOptions } from './tokens';
import * as wire from './wire';

export const API = 'jtrain/api';

/** An answer that isn't a success. `status` is 0 when the server can't be reached; the message is for people. */
export class ApiProblem extends Error {
  constructor(
    message: string,
    readonly status: number
  ) {
    super(message);
  }
}

type Query = [string, string | number][];

/** The REST routes over JupyterLab's own authenticated requests. */
export class Api implements IJtrainApi {
  constructor(private readonly _settings: ServerConnection.ISettings) {}

  runs(): Promise<wire.IRunsAnswer> {
    return this._get('runs');
  }

  sparks(ids: string[]): Promise<wire.ISparksAnswer> {
    return this._get(
      'sparks',
      ids.map(id => ['id', id])
    );
  }

  run(id: string): Promise<wire.IRunAnswer> {
    return this._get(runPath(id));
  }

  metrics(
    id: string,
    options: IMetricsOptions = {}
  ): Promise<wire.IMetricsAnswer> {
    const query: Query = (options.names ?? []).map(name => ['name', name]);
    const rest: [string, string | number | undefined][] = [
      ['max_points', options.maxPoints],
      ['axis', options.axis],
      ['from', options.from],
      ['to', options.to]
    ];
    for (const [key, value] of rest) {
      if (value !== undefined) {
        query.push([key, value]);
      }
    }
    return this._get(runPath(id, 'metrics'), query);
  }

  samples(id: string, maxPoints?: number): Promise<wire.ISamplesAnswer> {
    const query: Query =
      maxPoints === undefined ? [] : [['max_points', maxPoints]];
    return this._get(runPath(id, 'samples'), query);
  }

  logs(id: string, rank: number, lines: number): Promise<wire.ILogAnswer> {
    return this._get(runPath(id, 'logs'), [
      ['rank', rank],
      ['lines', lines]
    ]);
  }

  machine(): Promise<wire.IMachineState> {
    return this._get('machine');
  }

  choice(): Promise<wire.IChoice> {
    return this._get('choice');
  }

  choose(uuids: string[]): Promise<wire.IChoice> {
    return this._send('PUT', 'choice', { uuids });
  }

  act(id: string, wish: wire.IActionWish): Promise<wire.IActionAnswer> {
    return this._send('POST', runPath(id, 'actions'), wish);
  }

  private _get<T>(path: string, query: Query = []): Promise<T> {
    const text = query
      .map(([key, value]) => `${key}=${encodeURIComponent(value)}`)
      .join('&');
    return this._ask(text ? `${path}?${text}` : path, { method: 'GET' });
  }

  private _send<T>(method: string, path: string, body: unknown): Promise<T> {
    return this._ask(path, { method, body: JSON.stringify(body) });
  }

  private async _ask<T>(path: string, init: RequestInit): Promise<T> {
    const url = URLExt.join(this._settings.baseUrl, API, path);
    let response: Response;
    try {
      response = await ServerConnection.makeRequest(url, init, this._settings);
    } catch (error) {
      throw new ApiProblem(String((error as Error).message ?? error), 0);
    }
    const text = await response.text();
    if (!response.ok) {
      throw new ApiProblem(problemOf(text, response), response.status);
    }
    return JSON.parse(text) as T;
  }
}

function runPath(id: string, part?: string): string {
  const path = `runs/${encodeURIComponent(id)}`;
  return part ? `${path}/${part}` : path;
}

function problemOf(text: string, response: Response): string {
  try {
    const { message } = JSON.parse(text) as wire.IProblemAnswer;
    return message || response.statusText;
  } catch {
    return `${response.status} ${response.statusText}`;
  }
}
