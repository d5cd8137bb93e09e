import { assert, test } from 'vitest';
import { LogFeed } from '../src/view/run/data/logfeed';
import { Points } from '../src/view/run/data/points';
import { Readings } from '../src/view/run/data/readings';
import { ICursor, ILogMessage, IPointsMessage, IPointsRow } from '../src/wire';

const at = (count: number, attempt = 1): ICursor => ({ attempt, count });

/** A server whose series `loss` holds the values 0, 1, 2 … */
class Server {
  count = 10;
  attempt = 1;
  numAsked = 0;

  metrics = async (_id: string, options?: { names?: string[] }) => {
    this.numAsked++;
    await Promise.resolve();
    const values = Array.from({ length: this.count }, (_, index) => index);
    return {
      series: (options?.names ?? []).map(name => ({
        name,
        steps: values,
        times: values,
        values,
        count: this.count,
        is_whole: true,
        cursor: at(this.count, this.attempt)
      }))
    };
  };

  /** What the stream says when points `[from, to)` are new to it. */
  row(from: number, to: number): IPointsRow {
    const values = Array.from({ length: to - from }, (_, i) => from + i);
    return {
      name: 'loss',
      after: at(from, this.attempt),
      cursor: at(to, this.attempt),
      steps: values,
      times: values,
      values
    };
  }
}

function message(...series: IPointsRow[]): IPointsMessage {
  return { type: 'points', seq: 1, run: 'r', restart: [], series };
}

function valuesOf(points: Points): number[] {
  const series = points.series.get('loss');
  return [...(series?.values.data.subarray(0, series.length) ?? [])];
}

const upTo = (count: number) => Array.from({ length: count }, (_, i) => i);
const settle = () => new Promise(resolve => setTimeout(resolve, 5));

async function opened(): Promise<[Server, Points]> {
  const server = new Server();
  const points = new Points(server, 'r');
  points.want(['loss']);
  await settle();
  return [server, points];
}

test('points follow on the fetched ones', async () => {
  const [server, points] = await opened();
  points.apply(message(server.row(10, 12)));
  assert.deepEqual(valuesOf(points), upTo(12));
  assert.deepEqual(points.cursors, { loss: at(12) });
  assert.strictEqual(server.numAsked, 1);
});

test('points that come twice or overlap after a reconnect are there once', async () => {
  const [server, points] = await opened();
  points.apply(message(server.row(10, 15), server.row(10, 15)));
  points.apply(message(server.row(12, 18), server.row(0, 5)));
  assert.deepEqual(valuesOf(points), upTo(18));
  assert.strictEqual(server.numAsked, 1);
});

test('a gap makes the series be fetched again', async () => {
  const [server, points] = await opened();
  server.count = 30;
  points.apply(message(server.row(20, 25)));
  await settle();
  assert.deepEqual(valuesOf(points), upTo(30));
  assert.strictEqual(server.numAsked, 2);
});

test('points that come while a series is fetched are neither lost nor doubled', async () => {
  const server = new Server();
  const points = new Points(server, 'r');
  points.want(['loss']);
  server.count = 12;
  points.apply(message(server.row(10, 12)));
  points.apply(message(server.row(12, 14)));
  await settle();
  assert.deepEqual(valuesOf(points), upTo(14));
});

test('a restart forgets what was and fetches anew', async () => {
  const [server, points] = await opened();
  server.attempt = 2;
  server.count = 4;
  points.apply({
    ...message(server.row(0, 5)),
    restart: ['loss']
  });
  await settle();
  assert.deepEqual(valuesOf(points), upTo(5));
  assert.deepEqual(points.cursors, { loss: at(5, 2) });
});

test('a metric is fetched once, however many charts want it', async () => {
  const [server, points] = await opened();
  points.want(['loss']);
  points.want(['loss']);
  assert.strictEqual(server.numAsked, 1);
});

test('a thinned out row is taken whole and makes the series not whole', async () => {
  const [server, points] = await opened();
  const row = { ...server.row(10, 12), cursor: at(5000) };
  points.apply(message(row));
  assert.strictEqual(points.series.get('loss')?.isWhole, false);
  assert.strictEqual(points.series.get('loss')?.summary.total, 5000);
});

test('a failed request is said and can be tried again', async () => {
  const server = new Server();
  const points = new Points(
    {
      metrics: (...args) =>
        server.numAsked++
          ? server.metrics(...args)
          : Promise.reject(Error('no'))
    },
    'r'
  );
  points.want(['loss']);
  await settle();
  assert.strictEqual(points.problem, 'no');
  points.want(['loss']);
  await settle();
  assert.strictEqual(points.problem, '');
  assert.deepEqual(valuesOf(points), upTo(10));
});

function logMessage(text: string, after: number, cursor: number): ILogMessage {
  return {
    type: 'log',
    seq: 1,
    run: 'r',
    rank: 0,
    text,
    skipped_bytes: 0,
    after: at(after),
    cursor: at(cursor)
  };
}

async function openedLog(): Promise<[LogFeed, () => string, () => number]> {
  let numAsked = 0;
  const feed = new LogFeed(
    {
      logs: async (_id, rank) => {
        numAsked++;
        return { rank, text: 'abc\nde', skipped: false, cursor: at(6) };
      }
    },
    'r'
  );
  feed.open(0);
  await settle();
  const text = () => {
    const buffer = feed.buffer(0);
    return buffer
      ? upTo(buffer.numLines)
          .map(index => buffer.text(index))
          .join('|')
      : '';
  };
  return [feed, text, () => numAsked];
}

test('a log goes on where it was fetched', async () => {
  const [feed, text] = await openedLog();
  feed.apply(logMessage('f\ng', 6, 9));
  assert.strictEqual(text(), 'abc|def|g');
  assert.deepEqual(feed.cursors, { '0': at(9) });
});

test('text of a log that comes twice or overlaps is there once, by bytes', async () => {
  const [feed, text, numAsked] = await openedLog();
  feed.apply(logMessage('eé', 5, 8));
  feed.apply(logMessage('eé', 5, 8));
  feed.apply(logMessage('é!', 6, 9));
  assert.strictEqual(text(), 'abc|deé!');
  assert.strictEqual(numAsked(), 1);
});

test('a gap in a log makes it be fetched again', async () => {
  const [feed, text, numAsked] = await openedLog();
  feed.apply(logMessage('zzz', 50, 53));
  await settle();
  assert.strictEqual(numAsked(), 2);
  assert.strictEqual(text(), 'abc|de');
});

test('a log that two views show stays when one of them is closed', async () => {
  const [feed, text, numAsked] = await openedLog();
  feed.open(0);
  feed.close(0);
  assert.strictEqual(text(), 'abc|de');
  feed.close(0);
  assert.strictEqual(feed.buffer(0), null);
  feed.open(0);
  await settle();
  assert.strictEqual(text(), 'abc|de');
  assert.strictEqual(numAsked(), 2);
});

test('a log that could not be had is fetched when tried again', async () => {
  let numAsked = 0;
  const feed = new LogFeed(
    {
      logs: async (_id, rank) => {
        if (numAsked++ === 0) {
          throw new Error('no');
        }
        return { rank, text: 'x', skipped: false, cursor: at(1) };
      }
    },
    'r'
  );
  feed.open(0);
  await settle();
  assert.strictEqual(feed.problem, 'no');
  feed.retry();
  await settle();
  assert.strictEqual(feed.buffer(0)?.text(0), 'x');
  assert.strictEqual(feed.problem, '');
});

test('readings that are known already are not added again', () => {
  const readings = new Readings(
    { samples: () => Promise.reject(Error('unused')) },
    'r'
  );
  const samples = (times: number[], load: (number | null)[]) => ({
    times,
    labels: { g: 'GPU 0' },
    load_percent: { g: load },
    memory_used_bytes: { g: load },
    memory_total_bytes: { g: 100 }
  });
  readings.apply(samples([1, 2], [10, null]));
  readings.apply(samples([2, 3], [20, 30]));
  const device = readings.devices.get('g');
  assert.deepEqual(
    [...(device?.load.times.data.subarray(0, 3) ?? [])],
    [1, 2, 3]
  );
  assert.strictEqual(device?.load.length, 3);
  assert.ok(isNaN(device?.load.values.at(1) ?? 0));
  assert.strictEqual(device?.memoryTotal, 100);
});
