/** Colours and font of a chart: a canvas follows no style sheet by itself. */
export interface IChartTheme {
  text: string;
  grid: string;
  background: string;
  warning: string;
  font: string;
  lines: string[];
}

/** How many curves have a colour of their own. */
export const NUM_COLOURS = 8;

/** The theme that holds at `element` now. */
export function themeOf(element: Element): IChartTheme {
  const style = getComputedStyle(element);
  const read = (name: string, otherwise: string) =>
    style.getPropertyValue(name).trim() || otherwise;
  return {
    text: read('--jp-ui-font-color2', '#666'),
    grid: read('--jp-JtrainGrid', '#8884'),
    background: read('--jp-layout-color1', 'white'),
    warning: read('--jp-warn-color0', '#b45309'),
    font: `11px ${read('--jp-ui-font-family', 'sans-serif')}`,
    lines: Array.from({ length: NUM_COLOURS }, (_, index) =>
      read(`--jp-JtrainLine${index}`, '#1976d2')
    )
  };
}
