import { assert, test } from 'vitest';
import { Signal } from '@lumino/signaling';
import { MachineModel, meanLoad } from '../src/model/machine';
import { choices, filtered, NO_FILTER } from '../src/model/runs';
import { merged } from '../src/model/wishes';
import { findCell } from '../src/notebooktext';
import { sparkPath } from '../src/view/parts/sparkpath';
import { IJtrainApi, IJtrainStream } from '../src/tokens';
import {
  IChoice,
  IDeviceRow,
  IFollowWish,
  IRunRow,
  StreamMessage
} from '../src/wire';

function run(id: string, more: Partial<IRunRow> = {}): IRunRow {
  return {
    id,
    name: id,
    state: 'finished',
    reason: '',
    created: 0,
    ended: 1,
    attempt: 1,
    tags: {},
    notebook: '',
    priority: 0,
    devices: [],
    progress: null,
    can_pause: false,
    can_resume: false,
    can_stop: false,
    ...more
  };
}

const RUNS = [
  run('brisk-otter-7', { name: 'Baseline', tags: { team: 'vision' } }),
  run('calm-mole-9', { state: 'running', notebook: 'work/a.ipynb' }),
  run('wise-elk-1', { notebook: 'work/b.ipynb', tags: { team: 'audio' } })
];

function found(filter: Partial<typeof NO_FILTER>): string[] {
  return filtered(RUNS, { ...NO_FILTER, ...filter }).map(row => row.id);
}

test('runs are found by words in their name, id, tags and notebook', () => {
  assert.deepEqual(found({ text: 'BASE otter' }), ['brisk-otter-7']);
  assert.deepEqual(found({ text: 'team=audio' }), ['wise-elk-1']);
  assert.deepEqual(found({ text: 'b.ipynb' }), ['wise-elk-1']);
  assert.deepEqual(found({ text: 'nothing' }), []);
});

test('runs are narrowed by state, notebook and tag together', () => {
  assert.deepEqual(found({ state: 'running' }), ['calm-mole-9']);
  assert.deepEqual(found({ tag: 'team=vision', state: 'running' }), []);
  assert.deepEqual(choices(RUNS), {
    states: ['finished', 'running'],
    notebooks: ['work/a.ipynb', 'work/b.ipynb'],
    tags: ['team=audio', 'team=vision']
  });
});

function follow(count: number, metrics: string[] | null): IFollowWish {
  const series = { loss: { attempt: 1, count } };
  return { run: 'a-b-1', metrics, series, logs: {}, samples: false };
}

test('of two views of a run the one that has less says where to begin', () => {
  const [wish, ...others] = merged([follow(9, ['loss']), follow(4, ['acc'])]);
  assert.deepEqual(others, []);
  assert.deepEqual(wish.metrics, ['loss', 'acc']);
  assert.deepEqual(wish.series.loss, { attempt: 1, count: 4 });
  assert.isNull(merged([follow(9, ['loss']), follow(4, null)])[0].metrics);
});

test('the line of a small curve has gaps where there is no number', () => {
  const path = sparkPath({ values: [0, 1, NaN, 1, null, 0, 2], label: '' });
  assert.equal(path.split('M').length - 1, 3);
  assert.equal(sparkPath({ values: [NaN, 1], label: '' }), '');
  const late = sparkPath({ values: [0, 1], label: '', span: 11 });
  assert.isTrue(late.startsWith('M90.0'));
});

/** A server that answers to a choice when it is told to. */
class ChoiceServer {
  readonly asked: string[][] = [];
  stored: IChoice = { uuids: [] };
  answer = () => undefined as void;

  choose = (uuids: string[]) =>
    new Promise<IChoice>(resolve => {
      this.asked.push(uuids);
      this.answer = () => resolve((this.stored = { uuids }));
    });

  choice = async () => this.stored;
}

const turn = () => new Promise(resolve => setTimeout(resolve));

test('quick choices reach the server in order, and no older word undoes them', async () => {
  const message = new Signal<object, StreamMessage>({});
  const server = new ChoiceServer();
  const machine = new MachineModel(
    server as Partial<IJtrainApi> as IJtrainApi,
    { message } as Partial<IJtrainStream> as IJtrainStream
  );
  void machine.toggle('A');
  void machine.toggle('B');
  await turn();
  assert.deepEqual(server.asked, [['A']], 'one after the other');
  server.answer();
  await turn();
  assert.deepEqual(server.asked, [['A'], ['A', 'B']]);
  message.emit({ type: 'choice', seq: 1, choice: { uuids: ['A'] } });
  assert.deepEqual(machine.chosen, ['A', 'B']);
  server.answer();
  server.stored = { uuids: ['C'] };
  await turn();
  assert.deepEqual(machine.chosen, ['C'], 'as chosen elsewhere meanwhile');
});

test('the mean load leaves out what can not be read', () => {
  const device = (load: number | null) =>
    ({ load_percent: load }) as IDeviceRow;
  assert.equal(meanLoad([device(20), device(null), device(40)]), 30);
  assert.isNull(meanLoad([device(null)]));
});

test('a cell is the run’s own when its code stands below the magic, or defines the launched function', () => {
  const cells = [
    'x = 1',
    '%%jtrain\nx = 1\ny = 2',
    '%%jtrain --nproc 2\n\nx = 1\n',
    'def train():\n    pass\n\ntrain()'
  ];
  assert.equal(findCell(cells, 'x = 1', false), 2, 'rather the whole cell');
  assert.equal(findCell(cells, 'y = 2\n', false), 1);
  assert.equal(findCell(cells, 'z = 3', false), -1);
  assert.equal(findCell(cells, '', false), -1);
  assert.equal(findCell([], 'x = 1', false), -1);
  assert.equal(findCell(cells, 'def train():\n    pass\n', true), 3);
});
