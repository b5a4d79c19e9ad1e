"""A training run as one object: model, optimizer, keys, compiled step, mesh, data and history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

SIZES = (64, 256, 128, 10)
KEEP = 0.8  # of the units of a hidden layer, at random in each step


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
    """Dense layers with dropout between them."""

    layers: list[Layer]

    def __call__(self, x: jax.Array, key: jax.Array) -> jax.Array:
        *hidden, last = self.layers
        for layer, layer_key in zip(hidden, jax.random.split(key, len(hidden)), strict=True):
            x = jnp.tanh(layer(x))
            x = jnp.where(jax.random.bernoulli(layer_key, KEEP, x.shape), x / KEEP, 0)
        return last(x)


@jax.tree_util.register_dataclass
@dataclass
class State:
    """What a step changes."""

    model: Model
    optimizer: Any  # what optax keeps: moments and a count
    key: jax.Array


@dataclass
class Training:
    """Everything that a run needs to go on, and nothing prepared for pickling."""

    mesh: Mesh
    images: jax.Array
    labels: jax.Array
    optimizer: optax.GradientTransformation
    step: Callable[[State, jax.Array, jax.Array], tuple[State, jax.Array]]
    state: State
    history: list[float] = field(default_factory=list)

    def train(self, steps: int) -> None:
        """Takes some steps, one at a time."""
        for _ in range(steps):
            # Many steps in flight on few cores could starve a collective: wait for each.
            self.state, loss = jax.block_until_ready(self.step(self.state, self.images, self.labels))
            self.history.append(float(loss))


def start(mesh: Mesh, seed: int = 0) -> Training:
    """A new run over a mesh with the axes "data" and "model"."""
    images, labels = digits()
    rows = NamedSharding(mesh, P("data"))
    optimizer = optax.chain(
        optax.clip_by_global_norm(1.0),
        optax.adamw(optax.cosine_decay_schedule(1e-2, decay_steps=200)),
    )
    model_key, key = jax.random.split(jax.random.key(seed))
    model = new_model(model_key, mesh)
    state = State(model, optimizer.init(model), jax.device_put(key, NamedSharding(mesh, P())))
    return Training(
        mesh=mesh,
        images=jax.device_put(images, rows),
        labels=jax.device_put(labels, rows),
        optimizer=optimizer,
        step=new_step(optimizer, rows),
        state=state,
    )


def digits() -> tuple[Any, Any]:
    """scikit-learn's handwritten digits, as many as eight devices can share."""
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    return images[:1792].astype("float32") / 16, labels[:1792].astype("int32")


def new_model(key: jax.Array, mesh: Mesh) -> Model:
    """Layers whose outputs are divided over the axis "model"."""
    layers = []
    for fan_in, fan_out in zip(SIZES, SIZES[1:], strict=False):
        key, layer_key = jax.random.split(key)
        weights = jax.random.normal(layer_key, (fan_in, fan_out)) / fan_in**0.5
        layers.append(
            Layer(
                jax.device_put(weights, NamedSharding(mesh, P(None, "model"))),
                jax.device_put(jnp.zeros(fan_out), NamedSharding(mesh, P("model"))),
            )
        )
    return Model(layers)


def new_step(optimizer: optax.GradientTransformation, rows: NamedSharding) -> Callable[..., Any]:
    """The compiled step: a closure over the optimizer and a sharding, which no module names."""

    def loss_of(model: Model, images: jax.Array, labels: jax.Array, key: jax.Array) -> jax.Array:
        logits = jax.lax.with_sharding_constraint(model(images, key), rows)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(state: State, images: jax.Array, labels: jax.Array) -> tuple[State, jax.Array]:
        key, dropout_key = jax.random.split(state.key)
        loss, grads = jax.value_and_grad(loss_of)(state.model, images, labels, dropout_key)
        updates, optimizer_state = optimizer.update(grads, state.optimizer, state.model)
        model = optax.apply_updates(state.model, updates)
        return State(model, optimizer_state, key), loss

    return jax.jit(step, donate_argnums=0)
