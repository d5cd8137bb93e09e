import uPlot from 'uplot';
import { formatDuration, formatShort } from '../../model/numbers';
import { IViewState, Range } from '../../model/viewport';
import { IChartTheme } from './theme';

/** How a curve looks. */
export interface IStroke {
  colour: string;

  /** Behind its smoothed curve a curve is faint. */
  isFaint: boolean;
  isShown: boolean;
}

/** What uPlot is to do for a chart, apart from data. */
export interface IChartShape {
  width: number;
  height: number;
  view: Readonly<IViewState>;
  theme: IChartTheme;
  strokes: IStroke[];
  syncKey: string;

  /** Ends of the y axis that hold whatever the data are. */
  limits: Range | null;
  formatY: (value: number) => string;

  /** Distances that ticks of the y axis may have; null: round decimal numbers. */
  ticksY: number[] | null;
}

/** Width of the y axis in CSS pixels: the same for all charts, so that their cursors stand in one line. */
export const Y_AXIS = 54;
const X_AXIS = 26;

/** Room right of the plot in CSS pixels. */
export const RIGHT = 22;

export function optionsOf(
  shape: IChartShape,
  hooks: uPlot.Hooks.Arrays
): uPlot.Options {
  const { view, theme } = shape;
  return {
    width: shape.width,
    height: shape.height,
    padding: [8, RIGHT, 0, 0],
    legend: { show: false },
    scales: {
      x: { time: false, range: (_, min, max) => widened(min, max) },
      y: view.isLog
        ? { distr: 3, range: (_, min, max) => logEnds(min, max) }
        : { range: (_, min, max) => shape.limits ?? linearEnds(min, max) }
    },
    axes: [axisX(view, theme), axisY(shape)],
    series: [{}, ...shape.strokes.map(seriesOf)],
    cursor: cursorOf(shape),
    hooks
  };
}

function cursorOf(shape: IChartShape): uPlot.Cursor {
  const isMove = (type: string) =>
    type === 'mousemove' || type === 'mouseleave' || type === 'mouseenter';
  return {
    y: false,
    points: { size: 7, width: 1.5 },
    drag: { x: true, y: false, setScale: false, dist: 4 },
    sync: {
      key: shape.syncKey,
      setSeries: false,
      scales: ['x', null],
      filters: { pub: isMove, sub: isMove }
    },
    bind: {
      mousedown: (_self, _target, handler) => event => {
        // With shift the chart is moved, which gestures.ts does.
        if (event.button === 0 && !event.shiftKey) {
          handler(event);
        }
        return null;
      },
      dblclick: () => () => null
    }
  };
}

function seriesOf(stroke: IStroke): uPlot.Series {
  return {
    scale: 'y',
    show: stroke.isShown,
    stroke: stroke.colour,
    alpha: stroke.isFaint ? 0.3 : 1,
    width: stroke.isFaint ? 1 : 1.5,
    spanGaps: false,
    points: stroke.isFaint
      ? { show: false }
      : { size: 4, fill: stroke.colour, stroke: stroke.colour }
  };
}

function axisX(view: Readonly<IViewState>, theme: IChartTheme): uPlot.Axis {
  return {
    ...lines(theme),
    size: X_AXIS,
    space: 64,
    ...(view.axis === 'step' ? { incrs: wholeSteps() } : { incrs: seconds() }),
    values: (_, splits) =>
      splits.map(view.axis === 'step' ? formatShort : formatDuration)
  };
}

function axisY(shape: IChartShape): uPlot.Axis {
  return {
    ...lines(shape.theme),
    size: Y_AXIS,
    space: 28,
    ...(shape.ticksY ? { incrs: shape.ticksY } : {}),
    ...(shape.view.isLog
      ? { splits: (_, __, min, max) => logTicks(min, max), filter: all }
      : {}),
    values: (_, splits) =>
      splits.map(split => (split === null ? '' : shape.formatY(split)))
  };
}

/** uPlot would leave out ticks of a log axis by rules of its own. */
function all(_: uPlot, splits: number[]): number[] {
  return splits;
}

/** Ticks between two positive numbers: powers of ten, with 2 and 5 of each where there are few powers. */
export function logTicks(min: number, max: number): number[] {
  const first = Math.floor(Math.log10(min));
  const last = Math.ceil(Math.log10(max));
  const factors = last - first <= 3 ? [1, 2, 5] : [1];
  const every = Math.max(1, Math.ceil((last - first) / 6));
  const ticks: number[] = [];
  for (let power = first; power <= last; power++) {
    if (power % every === 0 || factors.length > 1) {
      ticks.push(...factors.map(factor => Number(`${factor}e${power}`)));
    }
  }
  const inside = ticks.filter(tick => tick >= min && tick <= max);
  return inside.length > 1 ? inside : [min, max];
}

function lines(theme: IChartTheme): uPlot.Axis {
  const thin = { stroke: theme.grid, width: 1 };
  return {
    stroke: theme.text,
    font: theme.font,
    gap: 4,
    grid: thin,
    ticks: { ...thin, size: 4 }
  };
}

/** Distances of ticks in steps: there is nothing between two steps. */
function wholeSteps(): number[] {
  const powers = Array.from({ length: 15 }, (_, power) => 10 ** power);
  return powers.flatMap(power => [power, 2 * power, 5 * power]);
}

/** Distances of ticks in seconds, which read well as minutes, hours and days too. */
function seconds(): number[] {
  const below = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
  const minute = [1, 2, 5, 10, 15, 30];
  const hour = [1, 2, 3, 6, 12];
  const day = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
  return [
    ...below,
    ...minute,
    ...minute.map(count => count * 60),
    ...hour.map(count => count * 3600),
    ...day.map(count => count * 86400)
  ];
}

/** Ends of an axis that has room also for a single number. */
function widened(min: number, max: number): Range {
  if (min === null || max === null || !isFinite(min) || !isFinite(max)) {
    return [0, 1];
  }
  return min === max ? [min - 0.5, max + 0.5] : [min, max];
}

function linearEnds(min: number, max: number): Range {
  if (min === null || max === null || !isFinite(min) || !isFinite(max)) {
    return [0, 1];
  }
  const room = (max - min) * 0.06 || Math.abs(max) * 0.1 || 1;
  const bottom = min - room;
  // A loss that is never negative shouldn't have an axis that is.
  return [min >= 0 && bottom < 0 ? 0 : bottom, max + room];
}

function logEnds(min: number, max: number): Range {
  if (min === null || max === null || !(min > 0) || !isFinite(max)) {
    return [0.1, 10];
  }
  const low = Math.log10(min);
  const high = Math.log10(max);
  const room = (high - low) * 0.06 || 0.3;
  return [10 ** (low - room), 10 ** (high + room)];
}
