import * as React from 'react';
import { choices, IFilter } from '../model/runs';
import { useJtrain, useTrans } from './context';
import { stateWord } from './words';

export interface IRunFilterProps {
  filter: IFilter;
  onChange: (filter: IFilter) => void;
}

/** A search box, and lists of the states, notebooks and tags there are. */
export function RunFilter(props: IRunFilterProps): JSX.Element {
  const { runs } = useJtrain();
  const trans = useTrans();
  const { filter, onChange } = props;
  const { states, notebooks, tags } = choices(runs.rows);
  const change = (part: Partial<IFilter>) => onChange({ ...filter, ...part });
  return (
    <div className="jp-JtrainFilter" role="search">
      <input
        type="search"
        className="jp-mod-styled"
        placeholder={trans.__('Search runs')}
        aria-label={trans.__('Search runs by name, id, tag or notebook')}
        value={filter.text}
        onChange={event => change({ text: event.target.value })}
      />
      <Select
        label={trans.__('State')}
        all={trans.__('All states')}
        values={states}
        value={filter.state}
        word={state => stateWord(trans, state)}
        onChange={state => change({ state })}
      />
      {notebooks.length > 1 && (
        <Select
          label={trans.__('Notebook')}
          all={trans.__('All notebooks')}
          values={notebooks}
          value={filter.notebook}
          word={path => path.split('/').pop() ?? path}
          onChange={notebook => change({ notebook })}
        />
      )}
      {tags.length > 0 && (
        <Select
          label={trans.__('Tag')}
          all={trans.__('All tags')}
          values={tags}
          value={filter.tag}
          word={tag => tag}
          onChange={tag => change({ tag })}
        />
      )}
    </div>
  );
}

interface ISelectProps {
  label: string;
  all: string;
  values: string[];
  value: string;
  word: (value: string) => string;
  onChange: (value: string) => void;
}

function Select(props: ISelectProps): JSX.Element {
  // What was chosen stays in the list when the last run that has it is gone.
  const values = props.values.includes(props.value)
    ? props.values
    : [props.value, ...props.values].filter(Boolean);
  return (
    <select
      className="jp-mod-styled"
      aria-label={props.label}
      value={props.value}
      onChange={event => props.onChange(event.target.value)}
    >
      <option value="">{props.all}</option>
      {values.map(value => (
        <option key={value} value={value}>
          {props.word(value)}
        </option>
      ))}
    </select>
  );
}
