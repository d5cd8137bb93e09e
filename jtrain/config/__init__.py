"""YAML configs of the adaptive trainer.

    model:    {name: "my_package.nets:Classifier", args: {hidden: 128}}
    data:     {train: {name: "sklearn.datasets:load_digits", args: {return_X_y: true}}, validation: 0.2}
    training: {loss: cross_entropy, epochs: 5, batch_size_per_gpu: 64, learning_rate: 3e-4}
    resource: {nproc: 2, checkpoint_every: 500steps}

`sections.py` says what there may be, `document.py` reads YAML and remembers the lines, `reading.py` checks one against
the other, `parts.py` finds what a name means.
"""

from jtrain.config.reading import load_config, parse_config
from jtrain.config.sections import Config, DataSection, Part, TrainingSection

__all__ = ["Config", "DataSection", "Part", "TrainingSection", "load_config", "parse_config"]
