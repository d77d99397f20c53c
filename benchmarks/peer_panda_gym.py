"""Counterpart of the default run: SAC with hindsight from Stable-Baselines3 on panda-gym's reach.

    python benchmarks/peer_panda_gym.py --seed 0

Settings are the settings of Stable-Baselines3's authors for this environment (RL Zoo: learning rate 1e-3, γ 0.95,
batches of 256, networks of [64, 64], one critic, first update after 1,000 steps, four future goals), one torch thread.
Trains, evaluates the policy by the success test of panda-gym (5 cm), and prints one line of JSON: `train_s`, the
seconds of `learn`; `steps`; `success_rate`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings


def main() -> None:
    """Train, evaluate and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=4_000, help="env steps to train (default: %(default)s)")
    parser.add_argument("--episodes", type=int, default=100, help="evaluation episodes (default: %(default)s)")
    arguments = parser.parse_args()

    import gymnasium
    import panda_gym  # noqa: F401  (registers its ids)
    import torch
    from stable_baselines3 import SAC, HerReplayBuffer

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    env = gymnasium.make("PandaReach-v3")
    model = SAC(
        "MultiInputPolicy",
        env,
        learning_rate=1e-3,
        gamma=0.95,
        batch_size=256,
        learning_starts=1_000,
        policy_kwargs={"net_arch": [64, 64], "n_critics": 1},
        replay_buffer_class=HerReplayBuffer,
        replay_buffer_kwargs={"n_sampled_goal": 4, "goal_selection_strategy": "future"},
        seed=arguments.seed,
        device="cpu",
    )
    start = time.perf_counter()
    model.learn(total_timesteps=arguments.steps)
    train_s = time.perf_counter() - start

    successes = 0
    eval_env = gymnasium.make("PandaReach-v3")
    for episode in range(arguments.episodes):
        observation, info = eval_env.reset(seed=1_000_000 * (arguments.seed + 1) + episode)
        terminated = truncated = False
        while not (terminated or truncated):
            action, _ = model.predict(observation, deterministic=True)
            observation, _, terminated, truncated, info = eval_env.step(action)
        successes += bool(info["is_success"])
    rate = successes / max(arguments.episodes, 1)
    print(json.dumps({"train_s": round(train_s, 2), "steps": model.num_timesteps, "success_rate": rate}))


if __name__ == "__main__":
    main()
