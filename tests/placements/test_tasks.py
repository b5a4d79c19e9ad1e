"""Threads and tasks: the settings of one are not those of another."""

import asyncio
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp

import jaxpickle
from placements.together import name_of

DATA = jaxpickle.dumps(jax.device_put(jnp.arange(3.0), jax.devices()[1]))


def lands() -> str:
    """Returns where plain pickle puts the array."""
    return name_of(pickle.loads(DATA).device)


def test_a_block_steers_its_own_thread() -> None:
    """`placement` steers every load that runs in the calling thread, and no other's."""
    with jaxpickle.placement(devices="cpu:4"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(lands).result() == "cpu:1"
        assert lands() == "cpu:4"


def test_threads_at_once() -> None:
    """Many threads, each in a block of its own, all inside their blocks at once."""
    inside = threading.Barrier(6)

    def load(index: int) -> list[str]:
        with jaxpickle.placement(devices=f"cpu:{index}"):
            inside.wait()
            own = [name_of(jaxpickle.loads(DATA).device), lands()]
            inside.wait()
        return [*own, lands()]

    with ThreadPoolExecutor(6) as pool:
        got = list(pool.map(load, range(2, 8)))
    assert got == [[f"cpu:{index}", f"cpu:{index}", "cpu:1"] for index in range(2, 8)]


def test_tasks_at_once() -> None:
    """Tasks of asyncio take turns inside their blocks, and none sees the block of another."""

    async def load(index: int) -> list[str]:
        places = []
        with jaxpickle.placement(devices=f"cpu:{index}"):
            for _ in range(3):
                await asyncio.sleep(0)
                places.append(lands())
        return [*places, lands()]

    async def all_at_once() -> list[list[str]]:
        return await asyncio.gather(*map(load, range(2, 8)))

    got = asyncio.run(all_at_once())
    assert got == [[f"cpu:{index}"] * 3 + ["cpu:1"] for index in range(2, 8)]
    assert lands() == "cpu:1"


def test_a_task_starts_with_the_settings_of_its_maker() -> None:
    """A task made inside a block is steered by it, and its own block does not leak out."""

    async def child(opened: asyncio.Event, seen: asyncio.Event) -> list[str]:
        places = [lands()]
        with jaxpickle.placement(devices="cpu:6"):
            opened.set()
            await seen.wait()
            return [*places, lands()]

    async def parent() -> list[str]:
        opened, seen = asyncio.Event(), asyncio.Event()
        with jaxpickle.placement(devices="cpu:5"):
            task = asyncio.create_task(child(opened, seen))
        await opened.wait()
        place = lands()
        seen.set()
        return [place, *await task]

    assert asyncio.run(parent()) == ["cpu:1", "cpu:5", "cpu:6"]


def test_a_task_that_a_load_started_outlives_its_settings() -> None:
    """What was given to a load ends with it, also for a task that was started during it."""

    async def main() -> tuple[str, str]:
        got: list[str] = []

        class Starts:
            def __init__(self) -> None:
                self.value = 1

            def __setstate__(self, state: object) -> None:
                async def later() -> None:
                    await asyncio.sleep(0.01)
                    got.append(name_of(jaxpickle.loads(DATA).device))

                self.task = asyncio.ensure_future(later())

        classes["Starts"] = Starts
        stream = jaxpickle.dumps(_Made())
        started = jaxpickle.loads(stream, devices="cpu:5")
        await started.task
        return got[0], name_of(jaxpickle.loads(DATA).device)

    assert asyncio.run(main()) == ("cpu:1", "cpu:1")


classes: dict[str, type] = {}


class _Made:
    """Comes back as an instance of a class of a test."""

    def __reduce__(self) -> tuple[object, ...]:
        return _make, (), {"value": 1}


def _make() -> object:
    return object.__new__(classes["Starts"])
