import uPlot from 'uplot';
import { Viewport } from '../../model/viewport';

/** How much more is shown for one notch of the wheel. */
const ZOOM_STEP = 1.25;

/** Part of what is shown by which an arrow key moves. */
const KEY_PAN = 0.15;

/**
 * Let a chart be moved and zoomed with mouse, wheel and keys. Returns what ends it.
 *
 * A plain wheel goes on scrolling the page: charts that catch it make a long page unusable.
 */
export function addGestures(plot: uPlot, viewport: Viewport): () => void {
  const ends = new AbortController();
  const { root } = plot;
  const listen = <K extends keyof HTMLElementEventMap>(
    type: K,
    handler: (event: HTMLElementEventMap[K]) => void,
    isPassive = true
  ) =>
    root.addEventListener(type, handler, {
      signal: ends.signal,
      passive: isPassive
    });
  listen('dblclick', () => viewport.reset());
  listen('wheel', event => onWheel(event, plot, viewport), false);
  listen('pointerdown', event => {
    const isBelow = event.clientY > plot.over.getBoundingClientRect().bottom;
    if (event.button === 0 && (event.shiftKey || isBelow)) {
      startPan(event, plot, viewport, ends.signal);
    }
  });
  return () => ends.abort();
}

/** Units of the x axis in a CSS pixel. */
function perPixel(plot: uPlot): number {
  const { min, max } = plot.scales.x;
  return ((max ?? 0) - (min ?? 0)) / (plot.over.clientWidth || 1);
}

function onWheel(event: WheelEvent, plot: uPlot, viewport: Viewport): void {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    const left = event.clientX - plot.over.getBoundingClientRect().left;
    const notches = Math.max(-3, Math.min(3, event.deltaY / 100));
    viewport.scale(ZOOM_STEP ** notches, plot.posToVal(left, 'x'));
    return;
  }
  const sideways =
    event.shiftKey && !event.deltaX ? event.deltaY : event.deltaX;
  if (viewport.state.range && Math.abs(sideways) > Math.abs(event.deltaY) / 2) {
    event.preventDefault();
    viewport.pan(sideways * perPixel(plot));
  }
}

function startPan(
  event: PointerEvent,
  plot: uPlot,
  viewport: Viewport,
  signal: AbortSignal
): void {
  let last = event.clientX;
  const ends = new AbortController();
  const stop = () => {
    ends.abort();
    plot.root.classList.remove('jp-mod-panning');
  };
  const options = { signal: ends.signal };
  signal.addEventListener('abort', stop, options);
  plot.root.classList.add('jp-mod-panning');
  plot.root.setPointerCapture(event.pointerId);
  plot.root.addEventListener(
    'pointermove',
    move => {
      viewport.pan((last - move.clientX) * perPixel(plot));
      last = move.clientX;
    },
    options
  );
  plot.root.addEventListener('pointerup', stop, options);
  plot.root.addEventListener('pointercancel', stop, options);
}

/** What a key does to the charts of a view; whether it did something. */
export function pressKey(key: string, viewport: Viewport): boolean {
  const { shown } = viewport;
  if (!shown) {
    return false;
  }
  const width = shown[1] - shown[0];
  const middle = (shown[0] + shown[1]) / 2;
  const actions: { [key: string]: () => void } = {
    '+': () => viewport.scale(1 / ZOOM_STEP, middle),
    '=': () => viewport.scale(1 / ZOOM_STEP, middle),
    '-': () => viewport.scale(ZOOM_STEP, middle),
    ArrowLeft: () => viewport.pan(-width * KEY_PAN),
    ArrowRight: () => viewport.pan(width * KEY_PAN),
    Home: () => viewport.pan(-Infinity),
    End: () => viewport.pan(Infinity),
    '0': () => viewport.reset()
  };
  actions[key]?.();
  return key in actions;
}
