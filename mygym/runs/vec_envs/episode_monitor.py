"""Returns and lengths of the episodes of vector environments."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecMonitor
from stable_baselines3.common.vec_env.base_vec_env import VecEnvStepReturn


class EpisodeMonitor(VecMonitor):
    """`VecMonitor` that writes the rows of a step together: of thousands of environments, many end in each."""

    results_writer: Any
    """The `EpisodesCsv` to which the rows are written; None: they are not written."""

    def step_wait(self) -> VecEnvStepReturn:
        """Step; the info of an episode that ends has `episode`: return `r`, length `l`, time `t` in s, and keywords."""
        observations, rewards, dones, infos = self.venv.step_wait()
        return observations, rewards, dones, self.record(rewards, dones, infos)

    def record(
        self, rewards: NDArray[Any], dones: NDArray[np.bool_], infos: list[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Count a step of all environments; return the infos, with `episode` for episodes that end."""
        self.episode_returns += rewards
        self.episode_lengths += 1
        ended = np.flatnonzero(dones).tolist()
        if not ended:
            return infos
        infos, now = list(infos), round(time.time() - self.t_start, 6)
        rows: list[dict[str, Any]] = []
        for index, total, length in zip(ended, self.episode_returns[ended], self.episode_lengths[ended], strict=True):
            info = infos[index]
            rows.append({"r": total, "l": length, "t": now, **{key: info[key] for key in self.info_keywords}})
            infos[index] = {**info, "episode": rows[-1]}
        self.episode_count += len(ended)
        self.episode_returns[ended] = 0
        self.episode_lengths[ended] = 0
        if self.results_writer:
            self.results_writer.write_rows(rows)
        return infos
