import * as React from 'react';
import { ISpan, IStyle, PLAIN } from '../../model/ansi';

export interface ILogLineProps {
  number: number;
  top: number;
  spans: ISpan[];

  /** What is looked for, in small letters; '' for nothing. */
  search: string;
  isCurrent: boolean;
}

/** A line of a log, in the colours that its escape codes ask for, as text. */
export function LogLine(props: ILogLineProps): JSX.Element {
  const { spans, search } = props;
  return (
    <div
      className={`jp-JtrainLog-line${props.isCurrent ? ' jp-mod-current' : ''}`}
      style={{ top: props.top }}
      data-line={props.number}
    >
      {(search ? marked(spans, search) : spans.map(plainly)).map(
        ({ span, isFound }, index) => (
          <span
            key={index}
            className={isFound ? 'jp-mod-found' : undefined}
            style={span.style === PLAIN ? undefined : cssOf(span.style)}
          >
            {span.text}
          </span>
        )
      )}
      {'\n'}
    </div>
  );
}

interface IMarked {
  span: ISpan;
  isFound: boolean;
}

function plainly(span: ISpan): IMarked {
  return { span, isFound: false };
}

/** Cut the spans where a hit of the search begins or ends. */
function marked(spans: ISpan[], search: string): IMarked[] {
  const text = spans.map(span => span.text).join('');
  const words = text.toLowerCase();
  // Small letters may take another number of characters; then hits can't be placed.
  if (words.length !== text.length) {
    return spans.map(plainly);
  }
  const hits: [number, number][] = [];
  let at = words.indexOf(search);
  while (at >= 0) {
    hits.push([at, at + search.length]);
    at = words.indexOf(search, at + search.length);
  }
  let start = 0;
  return spans.flatMap(span => {
    const pieces = cut(span, start, hits);
    start += span.text.length;
    return pieces;
  });
}

function cut(span: ISpan, start: number, hits: [number, number][]): IMarked[] {
  const pieces: IMarked[] = [];
  const end = start + span.text.length;
  let place = start;
  const add = (to: number, isFound: boolean) => {
    if (to > place) {
      const text = span.text.slice(place - start, to - start);
      pieces.push({ span: { text, style: span.style }, isFound });
      place = to;
    }
  };
  for (const [from, to] of hits) {
    if (to > start && from < end) {
      add(Math.max(from, start), false);
      add(Math.min(to, end), true);
    }
  }
  add(end, false);
  return pieces;
}

function cssOf(style: IStyle): React.CSSProperties {
  const [front, back] = style.isInverse
    ? [
        style.background ?? 'var(--jp-layout-color0)',
        style.colour ?? 'var(--jp-ui-font-color1)'
      ]
    : [style.colour, style.background];
  return {
    color: css(front),
    backgroundColor: css(back),
    fontWeight: style.isBold ? 'bold' : undefined,
    fontStyle: style.isItalic ? 'italic' : undefined,
    opacity: style.isDim ? 0.65 : undefined,
    textDecoration:
      [style.isUnderlined && 'underline', style.isStruck && 'line-through']
        .filter(Boolean)
        .join(' ') || undefined
  };
}

function css(colour: number | string | null): string | undefined {
  return typeof colour === 'number'
    ? `var(--jp-JtrainAnsi${colour})`
    : (colour ?? undefined);
}
