"""A training run as one object: mesh, data, model, optimizer, keys, compiled step and history.

Ordinary classes, written without a thought of pickling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import files
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SIZES = (64, 128, 10)
KEPT = 0.9  # of the hidden units, chosen anew in each step


@jax.tree_util.register_dataclass
@dataclass
class Layer:
    """A dense layer."""

    weights: jax.Array
    bias: jax.Array

    def __call__(self, x: jax.Array) -> jax.Array:
        return x @ self.weights + self.bias


@jax.tree_util.register_dataclass
@dataclass
class Model:
    """Dense layers, with dropout before the last."""

    layers: list[Layer]

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        *hidden, last = self.layers
        for layer in hidden:
            x = jnp.tanh(layer(x))
        return last(jnp.where(jax.random.bernoulli(key, KEPT, x.shape), x / KEPT, 0))


@jax.tree_util.register_dataclass
@dataclass
class State:
    """What a step changes."""

    model: Model
    optimizer: Any  # what optax keeps: moments and a count
    key: jax.Array


Step = Callable[[State, jax.Array, jax.Array], tuple[State, jax.Array]]


@dataclass
class Training:
    """A run, with everything that it needs to go on."""

    mesh: Mesh
    images: jax.Array
    labels: jax.Array
    optimizer: optax.GradientTransformation
    step: Step
    state: State
    losses: list[float] = field(default_factory=list)

    def train(self, steps: int) -> None:
        """Takes some steps."""
        for _ in range(steps):
            # Wait for each: many steps in flight can starve each other where cores are few.
            self.state, loss = jax.block_until_ready(
                self.step(self.state, self.images, self.labels)
            )
            self.losses.append(float(loss))


def new_training(mesh: Mesh, seed: int = 0) -> Training:
    """A run that has not begun, over a mesh with the axes "data" and "model"."""
    optimizer = optax.adam(optax.exponential_decay(1e-2, transition_steps=10, decay_rate=0.9))
    model = new_model(np.random.default_rng(seed))
    state = State(model, optimizer.init(model), jax.random.key(seed))
    places = jax.tree.map(lambda leaf: NamedSharding(mesh, by_unit(leaf)), state)
    rows = NamedSharding(mesh, P("data"))
    images, labels = digits()
    return Training(
        mesh=mesh,
        images=jax.device_put(images, rows),
        labels=jax.device_put(labels, rows),
        optimizer=optimizer,
        step=new_step(optimizer, rows, places),
        state=jax.device_put(state, places),
    )


def digits() -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The handwritten digits of scikit-learn's `load_digits`, as many as eight devices can share.

    They are read from its file: to import scikit-learn takes longer than to train on them.
    """
    (file,) = (f for f in files("scikit-learn") or () if f.name == "digits.csv.gz")
    table = np.loadtxt(file.locate(), delimiter=",")
    return table[:1792, :64].astype("float32") / 16, table[:1792, 64].astype("int32")


def new_model(rng: np.random.Generator) -> Model:
    """Layers with random weights."""
    layers = []
    for inputs, units in pairwise(SIZES):
        weights = rng.normal(size=(inputs, units), scale=inputs**-0.5).astype("float32")
        layers.append(Layer(jnp.asarray(weights), jnp.zeros(units)))
    return Model(layers)


def by_unit(leaf: jax.Array) -> P:
    """Divides what has units, which are its last dimension, over the axis "model"."""
    return P(*[None] * (leaf.ndim - 1), "model") if leaf.ndim else P()


def new_step(optimizer: optax.GradientTransformation, rows: NamedSharding, places: State) -> Step:
    """The compiled step: a closure over an optimizer and shardings, which no module can name."""

    def loss_of(model: Model, images: jax.Array, labels: jax.Array, key: jax.Array) -> jax.Array:
        logits = jax.lax.with_sharding_constraint(model(images, key), rows)
        losses: jax.Array = optax.softmax_cross_entropy_with_integer_labels(logits, labels)
        return losses.mean()

    def step(state: State, images: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
        key, dropout_key = jax.random.split(state.key)
        loss, gradients = jax.value_and_grad(loss_of)(state.model, images, labels, dropout_key)
        updates, optimizer_state = optimizer.update(gradients, state.optimizer, state.model)
        model = optax.apply_updates(state.model, updates)
        return State(model, optimizer_state, key), loss

    return jax.jit(step, donate_argnums=0, out_shardings=(places, None))
