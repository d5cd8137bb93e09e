import { assert, test } from 'vitest';
import { meanLoad } from '../src/model/machine';
import { choices, filtered, NO_FILTER } from '../src/model/runs';
import { merged } from '../src/model/wishes';
import { isCellOf } from '../src/notebooktext';
import { sparkPath } from '../src/view/parts/sparkpath';
import { IDeviceRow, IFollowWish, IRunRow } from '../src/wire';

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

test('the mean load leaves out what can not be read', () => {
  const device = (load: number | null) =>
    ({ load_percent: load }) as IDeviceRow;
  assert.equal(meanLoad([device(20), device(null), device(40)]), 30);
  assert.isNull(meanLoad([device(null)]));
});

test('a cell is the run’s own when its code stands below the magic', () => {
  assert.isTrue(isCellOf('%%jtrain --nproc 2\nx = 1\n', 'x = 1'));
  assert.isFalse(isCellOf('x = 1', 'x = 1'));
  assert.isFalse(isCellOf('%%jtrain\nx = 1', ''));
});
