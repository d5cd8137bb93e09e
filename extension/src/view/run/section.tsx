import * as React from 'react';

export interface ISectionProps {
  title: string;

  /** For tests and style: what the section holds. */
  kind: string;

  /** Shown behind the title, say a count. */
  note?: string;
  isOpenAtFirst?: boolean;
  children: React.ReactNode;
}

/** A part of the view that can be folded away; what is folded isn't rendered. */
export function Section(props: ISectionProps): JSX.Element {
  const [isOpen, setOpen] = React.useState(props.isOpenAtFirst ?? false);
  const id = React.useId();
  return (
    <section className="jp-JtrainRun-section" data-part={props.kind}>
      <h3 className="jp-JtrainRun-sectionTitle">
        <button
          type="button"
          aria-expanded={isOpen}
          aria-controls={id}
          onClick={() => setOpen(!isOpen)}
        >
          <span className="jp-JtrainRun-arrow" aria-hidden="true" />
          <span className="jp-JtrainRun-sectionName" title={props.title}>
            {props.title}
          </span>
          {props.note && (
            <span className="jp-JtrainRun-sectionNote">{props.note}</span>
          )}
        </button>
      </h3>
      <div id={id} hidden={!isOpen}>
        {isOpen && props.children}
      </div>
    </section>
  );
}
