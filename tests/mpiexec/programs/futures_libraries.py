"""The library that the argument names gets an executor as its pool; prints "fine" if its results are right."""

from __future__ import annotations

import os
import sys
import time

import numpy as np

from apgas.futures import MalleableExecutor


def pid_after(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()


def of_joblib() -> None:
    import joblib

    import apgas.futures.joblib  # noqa: F401 - it registers the backend

    with joblib.parallel_backend("apgas"):
        parallel = joblib.Parallel(n_jobs=2)
        assert parallel(joblib.delayed(pow)(number, 2) for number in range(200)) == [n * n for n in range(200)]
        try:
            parallel(joblib.delayed(divmod)(1, number) for number in (1, 0, 2))
        except ZeroDivisionError:
            pass
        else:
            raise AssertionError("nothing was raised")
        with MalleableExecutor(places=2) as executor:
            ours = set(executor.map(pid_after, [0.02] * 20))
            assert set(joblib.Parallel()(joblib.delayed(os.getpid)() for _ in range(50))) <= ours


def of_sklearn() -> None:
    import joblib
    from sklearn.datasets import make_classification
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV

    import apgas.futures.joblib  # noqa: F401 - it registers the backend

    points, classes = make_classification(n_samples=200, random_state=1)
    grid = {"C": [0.01, 0.1, 1.0, 10.0]}
    alone = GridSearchCV(LogisticRegression(), grid, cv=3).fit(points, classes)
    with MalleableExecutor(places=2), joblib.parallel_backend("apgas"):
        spread = GridSearchCV(LogisticRegression(), grid, cv=3, n_jobs=-1).fit(points, classes)
    assert spread.best_params_ == alone.best_params_
    assert np.array_equal(spread.cv_results_["mean_test_score"], alone.cv_results_["mean_test_score"])


def log_probability(point: np.ndarray) -> float:
    return float(-0.5 * np.sum(point**2))


def of_emcee() -> None:
    import emcee

    def chain(pool: MalleableExecutor | None) -> np.ndarray:
        np.random.seed(3)  # emcee draws from where this leads
        sampler = emcee.EnsembleSampler(8, 2, log_probability, pool=pool)
        sampler.run_mcmc(np.random.default_rng(1).normal(size=(8, 2)), 20)
        found: np.ndarray = sampler.get_chain()
        return found

    with MalleableExecutor(places=2) as executor:
        spread = chain(executor)
    assert np.array_equal(spread, chain(None))


def of_schwimmbad() -> None:
    import joblib
    from schwimmbad import JoblibPool, SerialPool

    import apgas.futures.joblib  # noqa: F401 - it registers the backend

    def values(pool: object) -> list[float]:
        points = np.arange(40.0).reshape(20, 2)
        return list(pool.map(log_probability, points))  # type: ignore[attr-defined]  # it is what its pools share

    alone = values(SerialPool())
    with MalleableExecutor(places=2) as executor:
        assert values(executor) == alone
        with joblib.parallel_backend("apgas"):
            assert values(JoblibPool()) == alone
            ours = set(executor.map(pid_after, [0.02] * 20))
            assert set(JoblibPool().map(pid_after, [0.02] * 20)) <= ours


if __name__ == "__main__":
    globals()[f"of_{sys.argv[1]}"]()
    print("fine", flush=True)
