"""Table of the built-in algorithms: class, defaults and help. Their defaults are defined nowhere else.

This module contains only data: a class is imported at its first use. With these defaults each algorithm solves `reach`
(`benchmarks/results/algorithms.md`). `mygym describe algo NAME --yaml` prints the complete config of an algorithm.
"""

from mygym.registry import Algorithm, add_algorithm

_SMALL = {"net_arch": [64, 64], "optimizer_kwargs": {"fused": True}}
"""Small networks with fused Adam: for these sizes the overhead of torch calls exceeds the computation."""

_OFF_POLICY = {
    "learning_rate": 2e-3,
    "gamma": 0.95,
    "batch_size": 256,
    "gradient_steps": 2,
    "tau": 0.05,
    "policy_kwargs": _SMALL,
}
_JAX_OFF_POLICY = {**_OFF_POLICY, "train_freq": 4, "gradient_steps": 8, "policy_kwargs": {"net_arch": [64, 64]}}
"""The same number of gradient steps as in PyTorch: JAX compiles all steps after a rollout into one call."""

_OFF_POLICY_RUN = {"n_envs": 4, "steps": 20_000, "eval": {"every": 500, "episodes": 25}}
_OFF_POLICY_SEVERAL_STAGES = {"steps": 500_000, "eval": {"every": 10_000, "episodes": 32}}
_DISCRETE_RUN = {**_OFF_POLICY_RUN, "actions": {"discrete": 3, "combined": True}}
_ON_POLICY_RUN = {"n_envs": 8, "reward": "dense", "steps": 200_000, "normalize": True}
_SEVERAL_STAGES = {"reward": "shaped", "task_params": {"starts": {"in_hand": 0.3}}}
"""Defaults of on-policy algorithms for tasks of several stages: chance does not reach the goal of such a task."""

_VALUE_BASED = {
    **_OFF_POLICY,
    "train_freq": 1,
    "target_update_interval": 4,
}

_PPO = {"n_steps": 128, "batch_size": 128, "learning_rate": 1e-3, "gamma": 0.95}
_PPO_SEVERAL_STAGES = {
    **_SEVERAL_STAGES,
    "n_envs": 32,
    "env_processes": "auto",
    "steps": 500_000,
    "eval": {"every": 40_000, "episodes": 32},
    "algo_params": {
        "n_steps": 64,
        "batch_size": 512,
        "n_epochs": 5,
        "policy_kwargs": {"net_arch": [128, 128], "log_std_init": -0.7},
    },
}
"""Short rollouts of many environments, large batches and little noise (`benchmarks/results/learning.md`)."""

_FALLING_RATE = {"learning_rate": {"schedule": "linear", "from": 1e-3, "to": 1e-4}}
_ALONG_EXPERT = {
    "task_params": {"starts": {"along_expert": 0.3}},
    "eval": {"every": 50_000},
    "algo_params": _FALLING_RATE,
}
"""Starts at a random point of the expert's episode, and a learning rate that decays to 10 %."""

_SMALL_STEPS = {**_ALONG_EXPERT, "control": {"name": "ee_delta", "step": 0.02}}
"""Small actions for precise tasks: the exploration noise of larger actions moves the hand by centimetres, so that an
object that is released falls off its place, and a handle slips out of the fingers."""

_WITHOUT_STARTS_IN_HAND = {
    **_SMALL_STEPS,
    "control": {"name": "ee_delta", "step": 0.015},  # a hand that shakes throws the object off when it opens
    "task_params": {"starts": {"along_expert": 0.5, "in_hand": 0.0}},
}
_SEVERAL_SUBTASKS = {
    **_WITHOUT_STARTS_IN_HAND,
    "steps": 2_000_000,
    "observations": [  # equal for each object, so that a later sub-task begins with the skill of an earlier sub-task
        *("ee_position", "ee_velocity", "command_offset", "gripper_width"),
        *("target_from_ee", "goal_from_object", "stage_name", "stage"),
    ],
}

_PPO_OF_TASKS = {
    "hit_board": {
        **_ALONG_EXPERT,
        "steps": 1_000_000,
        "task_params": {"starts": {"along_expert": 0.3, "in_hand": 0.2}},
    },
    "insert": {
        "steps": 1_500_000,
        "control": {"name": "ee_delta", "step": 0.01},
        "eval": {"every": 50_000},
        "task_params": {"starts": {"along_expert": 0.5, "in_hand": 0.1}},
        "algo_params": {**_FALLING_RATE, "ent_coef": 0.003},
    },
    "open_drawer": _SMALL_STEPS,
    "pick_and_place": _SMALL_STEPS,
    "push": _SMALL_STEPS,
    "place_on_step": {**_SMALL_STEPS, "steps": 1_000_000},
    "score_goal": {**_ALONG_EXPERT, "steps": 1_000_000},
    "slide": {  # smaller actions cannot accelerate the stone
        **_ALONG_EXPERT,
        "steps": 1_000_000,
        "control": {"name": "ee_delta", "step": 0.03},
    },
    **dict.fromkeys(("hand_over", "stack"), _WITHOUT_STARTS_IN_HAND),
    **dict.fromkeys(("build_tower", "set_table"), _SEVERAL_SUBTASKS),
    "maze": _SMALL_STEPS,
    "throw": {
        **_ALONG_EXPERT,
        "steps": 2_000_000,
        "task_params": {"starts": {"along_expert": 0.5, "in_hand": 0.1}},
        "algo_params": {**_FALLING_RATE, "ent_coef": 0.003},  # else it throws to a single side
    },
    "vertical_maze": {**_SMALL_STEPS, "steps": 800_000},
}
"""Values for tasks that `ppo` does not learn, or learns slowly, with those for several stages
(`benchmarks/results/learning.md`)."""

_SAC_SHAPED = {
    "n_envs": 8,
    "reward": "shaped",
    "steps": 200_000,
    "eval": {"every": 20_000},
    "task_params": {"starts": {"along_expert": 0.5}},
    "algo_params": {
        **_FALLING_RATE,
        "batch_size": 256,
        "train_freq": 1,
        "gradient_steps": 4,
        "learning_starts": 5_000,
        "policy_kwargs": {"net_arch": [128, 128]},
    },
}
_SHARED_WITH_SAC = frozenset(
    {"build_tower", "hand_over", "insert", "maze", "place_on_step", "set_table", "stack", "vertical_maze"}
)
"""Tasks whose actions and observations are those of `ppo`."""

_SAC_SHAPED_LONG = {**_SAC_SHAPED, "steps": 400_000}
_SAC_OF_TASKS = {
    **dict.fromkeys(("open_door", "poke", "press", "switch", "turn"), _SAC_SHAPED),
    "hit_board": {**_SAC_SHAPED, "steps": 600_000, "task_params": {"starts": {"along_expert": 0.5, "in_hand": 0.1}}},
    "open_drawer": {**_SAC_SHAPED, "control": {"name": "ee_delta", "step": 0.02}},
    **dict.fromkeys(("score_goal", "throw"), _SAC_SHAPED_LONG),
    **{
        task: {**_SAC_SHAPED_LONG, **{key: values[key] for key in ("control", "observations") if key in values}}
        for task, values in _PPO_OF_TASKS.items()
        if task in _SHARED_WITH_SAC
    },
}
"""Values of `sac` for tasks of several stages, whose progress is its reward (`benchmarks/results/learning.md`)."""

_PPO_FUSED = {
    "n_envs": 512,
    "env_processes": False,
    "steps": 1_000_000,
    "reward": "dense",
    "eval": {"every": 32_768, "episodes": 25},
    "checkpoint": {"every": 1_000_000},
    "algo_params": {"n_steps": 16, "batch_size": 2048, "n_epochs": 4, "learning_rate": 3e-3},
}
"""Many environments and short rollouts (`benchmarks/results/fused.md`)."""

_PPO_FUSED_SEVERAL_STAGES = {
    "reward": "shaped",
    "steps": 2_000_000,
    "eval": {"every": 131_072},
    "algo_params": {"n_epochs": 5, "learning_rate": {"schedule": "linear", "from": 2e-3, "to": 1e-4}},
}

_IMITATION = {
    "learning_rate": {"schedule": "linear", "from": 1e-3, "to": 1e-5},  # large steps at the end reduce precision
    "policy_kwargs": {"net_arch": [128, 128, 128], "optimizer_kwargs": {"fused": True}},
}
_IMITATION_RUN = {"n_envs": 8, "steps": 20_000, "eval": {"every": 5_000, "episodes": 30}}
_DAGGER_OF_TASKS = {task: {"steps": 80_000} for task in ("build_tower", "hand_over", "set_table")}
"""Long episodes need more of them (`benchmarks/results/learning.md`)."""

_IMITATION_FUSED = {
    "n_envs": 64,
    "steps": 16_000,
    "eval": {"every": 8_000, "episodes": 10},
    "training_params": {"rollout_steps": 10},
}
"""Many environments shorten the rollouts; evaluations in PyBullet, the slowest part, are few."""

_RATE = {"loguniform": [1e-4, 1e-2]}
_DISCOUNT = {"choice": [0.9, 0.95, 0.98, 0.99]}
_NETWORKS = {"policy_kwargs": {"net_arch": {"choice": [[64, 64], [128, 128], [256, 256]]}}}
_ON_POLICY_SPACE = {
    "learning_rate": _RATE,
    "gamma": _DISCOUNT,
    "gae_lambda": {"choice": [0.9, 0.95, 0.98]},
    **_NETWORKS,
}
_PPO_SPACE = {
    **_ON_POLICY_SPACE,
    "n_steps": {"choice": [32, 64, 128, 256]},
    "batch_size": {"choice": [64, 128, 256, 512]},
    "n_epochs": {"int": [3, 20]},
    "clip_range": {"choice": [0.1, 0.2, 0.3]},
    "ent_coef": {"loguniform": [1e-6, 1e-1]},
}
_A2C_SPACE = {**_ON_POLICY_SPACE, "n_steps": {"choice": [4, 8, 16, 32]}, "ent_coef": {"loguniform": [1e-6, 1e-1]}}
_TRPO_SPACE = {
    **_ON_POLICY_SPACE,
    "n_steps": {"choice": [64, 128, 256]},
    "target_kl": {"loguniform": [1e-3, 1e-1]},
}
_REPLAY_SPACE = {
    "learning_rate": _RATE,
    "gamma": _DISCOUNT,
    "batch_size": {"choice": [128, 256, 512]},
    "gradient_steps": {"int": [1, 4]},
}
_OFF_POLICY_SPACE = {**_REPLAY_SPACE, "tau": {"loguniform": [5e-3, 1e-1]}, **_NETWORKS}
_NOISE_SPACE = {**_OFF_POLICY_SPACE, "action_noise": {"uniform": [0.05, 0.4]}}
_VALUE_SPACE = {**_OFF_POLICY_SPACE, "target_update_interval": {"choice": [1, 4, 16]}}
_POPULATION_SPACE = {"learning_rate": {"loguniform": [5e-3, 0.2]}, "delta_std": {"loguniform": [0.02, 0.3]}}
"""Search spaces of `mygym sweep` with `space: default`, around the defaults."""

BUILT_IN = (
    Algorithm(
        "ppo",
        "pytorch",
        "mygym.algos.stable_baselines:PPO",
        defaults=_PPO,
        run_defaults=_ON_POLICY_RUN,
        stage_defaults=_PPO_SEVERAL_STAGES,
        task_defaults=_PPO_OF_TASKS,
        fused_defaults=_PPO_FUSED,
        fused_stage_defaults=_PPO_FUSED_SEVERAL_STAGES,
        help="proximal policy optimisation: on-policy, robust, for many environments",
        search_space=_PPO_SPACE,
    ),
    Algorithm(
        "multippo",
        "pytorch",
        "mygym.algos.stable_baselines:PPO",
        defaults=_PPO,
        run_defaults={
            **_ON_POLICY_RUN,
            "strategy": "mixture",
            "strategy_params": {"protocol": "single", "by": "stage"},
        },
        stage_defaults=_PPO_SEVERAL_STAGES,
        fused_defaults=_PPO_FUSED,
        fused_stage_defaults=_PPO_FUSED_SEVERAL_STAGES,
        help="proximal policy optimisation with separate networks for each stage of the task",
        search_space=_PPO_SPACE,
    ),
    Algorithm(
        "a2c",
        "pytorch",
        "mygym.algos.stable_baselines:A2C",
        defaults={"n_steps": 16, "learning_rate": 1e-3, "gamma": 0.95},
        run_defaults=_ON_POLICY_RUN,
        stage_defaults=_SEVERAL_STAGES,
        help="advantage actor-critic: on-policy, simple",
        search_space=_A2C_SPACE,
    ),
    Algorithm(
        "sac",
        "pytorch",
        "mygym.algos.stable_baselines:SAC",
        defaults={
            **_OFF_POLICY,
            "learning_rate": 3e-3,
            "batch_size": 512,
            "ent_coef": "auto_0.05",
            "policy_kwargs": {**_SMALL, "n_critics": 1},
        },
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        task_defaults=_SAC_OF_TASKS,
        goal_relabelling=True,
        help="soft actor-critic: off-policy, maximum entropy; the default",
        requires=("continuous_actions",),
        search_space=_OFF_POLICY_SPACE,
    ),
    Algorithm(
        "td3",
        "pytorch",
        "mygym.algos.stable_baselines:TD3",
        defaults={**_OFF_POLICY, "action_noise": 0.2},
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        help="twin delayed deep deterministic policy gradient: off-policy, deterministic",
        requires=("continuous_actions",),
        search_space=_NOISE_SPACE,
    ),
    Algorithm(
        "ddpg",
        "pytorch",
        "mygym.algos.stable_baselines:DDPG",
        defaults={**_OFF_POLICY, "action_noise": 0.2},
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        help="deep deterministic policy gradient: off-policy, the classic choice with hindsight",
        requires=("continuous_actions",),
        search_space=_NOISE_SPACE,
    ),
    Algorithm(
        "tqc",
        "pytorch",
        "mygym.algos.contrib:TQC",
        defaults={
            **_OFF_POLICY,
            "ent_coef": "auto_0.05",
            "policy_kwargs": {**_SMALL, "n_critics": 1},
        },
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        help="truncated quantile critics: off-policy, soft actor-critic with distributions",
        requires=("continuous_actions",),
        search_space=_OFF_POLICY_SPACE,
    ),
    Algorithm(
        "dqn",
        "pytorch",
        "mygym.algos.stable_baselines:DQN",
        defaults={**_VALUE_BASED, "exploration_fraction": 0.3},
        run_defaults=_DISCRETE_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        requires=("discrete_actions",),
        help="deep Q-learning: off-policy, values of discrete actions",
        search_space=_VALUE_SPACE,
    ),
    Algorithm(
        "qrdqn",
        "pytorch",
        "mygym.algos.contrib:QRDQN",
        defaults={
            **_VALUE_BASED,
            "exploration_fraction": 0.3,
            "policy_kwargs": {"net_arch": [64, 64], "n_quantiles": 25},
        },
        run_defaults=_DISCRETE_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        requires=("discrete_actions",),
        help="quantile regression deep Q-learning: off-policy, distributions of the values of discrete actions",
        search_space=_VALUE_SPACE,
    ),
    Algorithm(
        "ddqn",
        "pytorch",
        "mygym.algos.ddqn:DDQN",
        defaults={**_VALUE_BASED, "epsilon": {"schedule": "inverse", "from": 1.0, "to": 0.05}},
        run_defaults=_DISCRETE_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        requires=("discrete_actions",),
        help="double deep Q-learning: off-policy, values of discrete actions that are not overestimated",
        search_space=_VALUE_SPACE,
    ),
    Algorithm(
        "trpo",
        "pytorch",
        "mygym.algos.contrib:TRPO",
        defaults={"n_steps": 128, "gamma": 0.95},
        run_defaults=_ON_POLICY_RUN,
        stage_defaults=_SEVERAL_STAGES,
        help="trust region policy optimisation: on-policy, careful steps",
        search_space=_TRPO_SPACE,
    ),
    Algorithm(
        "crossq",
        "pytorch",
        "mygym.algos.contrib:CrossQ",
        policy="MlpPolicy",
        defaults={
            "learning_rate": 2e-3,
            "gamma": 0.95,
            "gradient_steps": 2,
            "ent_coef": "auto_0.01",
            "policy_kwargs": {**_SMALL, "net_arch": {"pi": [64, 64], "qf": [128, 128]}},
        },
        run_defaults={**_OFF_POLICY_RUN, "reward": "dense"},
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        dict_observations=False,
        help="batch-normalised soft actor-critic without target networks: off-policy, sample-efficient",
        requires=("continuous_actions",),
        search_space=_REPLAY_SPACE,
    ),
    Algorithm(
        "ars",
        "pytorch",
        "mygym.algos.contrib:ARS",
        policy="LinearPolicy",
        defaults={"n_delta": 32, "n_top": 16, "learning_rate": 0.05, "delta_std": 0.1},
        run_defaults={
            "n_envs": 8,
            "reward": "dense",
            "steps": 1_500_000,
            "normalize": True,
            "eval": {"every": 50_000},
        },
        dict_observations=False,
        help="augmented random search: no gradients, linear policy",
        requires=("continuous_or_combined_actions",),
        search_space=_POPULATION_SPACE,
    ),
    Algorithm(
        "recurrent_ppo",
        "pytorch",
        "mygym.algos.contrib:RecurrentPPO",
        policy="MultiInputLstmPolicy",
        defaults=_PPO,
        run_defaults=_ON_POLICY_RUN,
        stage_defaults=_SEVERAL_STAGES,
        help="proximal policy optimisation with an LSTM: on-policy, with memory",
        search_space=_PPO_SPACE,
    ),
    Algorithm(
        "ppo_runner",
        "pytorch",
        "mygym.algos.ppo_runner:PPORunner",
        defaults=_PPO,
        run_defaults={**_ON_POLICY_RUN, "eval": {"test_episodes": 25}},
        stage_defaults=_PPO_SEVERAL_STAGES,
        fused_defaults=_PPO_FUSED,
        fused_stage_defaults=_PPO_FUSED_SEVERAL_STAGES,
        help="proximal policy optimisation as one readable loop: a runner to start from",
        search_space=_PPO_SPACE,
    ),
    Algorithm(
        "cem",
        "pytorch",
        "mygym.algos.cem:CEM",
        policy="LinearPolicy",
        defaults={"policy_kwargs": {"with_bias": True}},  # a bias, because goals are not centred like observations
        run_defaults={
            "n_envs": 8,
            "reward": "dense",
            "steps": 300_000,
            "normalize": True,
            "eval": {"test_episodes": 25},
        },
        dict_observations=False,
        help="cross-entropy method: no gradients, linear policy; a runner",
        requires=("continuous_or_combined_actions",),
    ),
    Algorithm(
        "bc",
        "pytorch",
        "mygym.algos.imitation:BC",
        defaults=_IMITATION,
        run_defaults=_IMITATION_RUN,
        fused_defaults=_IMITATION_FUSED,
        replaces_task_budget=True,
        help="behaviour cloning: imitates the scripted expert; a runner",
        requires=("continuous_actions",),
    ),
    Algorithm(
        "dagger",
        "pytorch",
        "mygym.algos.imitation:DAgger",
        defaults=_IMITATION,
        run_defaults=_IMITATION_RUN,
        task_defaults=_DAGGER_OF_TASKS,
        fused_defaults=_IMITATION_FUSED,
        replaces_task_budget=True,
        help="dataset aggregation: the policy acts, the scripted expert labels its states; a runner",
        requires=("continuous_actions",),
    ),
    Algorithm(
        "ppo",
        "jax",
        "mygym.algos.sbx:PPO",
        policy="MlpPolicy",
        defaults={**_PPO, "policy_kwargs": {"ortho_init": True}},  # small first actions, as in PyTorch
        run_defaults=_ON_POLICY_RUN,
        stage_defaults=_PPO_SEVERAL_STAGES,
        task_defaults=_PPO_OF_TASKS,
        fused_defaults=_PPO_FUSED,
        fused_stage_defaults=_PPO_FUSED_SEVERAL_STAGES,
        dict_observations=False,
        search_space=_PPO_SPACE,
    ),
    Algorithm(
        "sac",
        "jax",
        "mygym.algos.sbx:SAC",
        defaults={
            **_JAX_OFF_POLICY,
            "learning_rate": 3e-3,
            "batch_size": 512,
            "ent_coef": "auto_0.05",
            "policy_kwargs": {"net_arch": [64, 64], "n_critics": 1},
        },
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        task_defaults=_SAC_OF_TASKS,
        goal_relabelling=True,
        requires=("continuous_actions",),
        search_space=_OFF_POLICY_SPACE,
    ),
    Algorithm(
        "tqc",
        "jax",
        "mygym.algos.sbx:TQC",
        defaults={**_JAX_OFF_POLICY, "ent_coef": "auto_0.05"},
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        requires=("continuous_actions",),
        search_space=_OFF_POLICY_SPACE,
    ),
    Algorithm(
        "td3",
        "jax",
        "mygym.algos.sbx:TD3",
        defaults={**_JAX_OFF_POLICY, "action_noise": 0.2},
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        requires=("continuous_actions",),
        search_space=_NOISE_SPACE,
    ),
    Algorithm(
        "ddpg",
        "jax",
        "mygym.algos.sbx:DDPG",
        policy="MlpPolicy",
        defaults={**_JAX_OFF_POLICY, "qf_learning_rate": None, "action_noise": 0.2},
        run_defaults={**_OFF_POLICY_RUN, "reward": "dense"},
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        dict_observations=False,
        requires=("continuous_actions",),
        search_space=_NOISE_SPACE,
    ),
    Algorithm(
        "crossq",
        "jax",
        "mygym.algos.sbx:CrossQ",
        defaults={
            "learning_rate": 2e-3,
            "gamma": 0.95,
            "train_freq": 3,
            "gradient_steps": 6,  # a multiple of policy_delay; otherwise each remainder is compiled separately
            "ent_coef": "auto_0.01",
            "policy_kwargs": {"net_arch": {"pi": [64, 64], "qf": [128, 128]}},
        },
        run_defaults=_OFF_POLICY_RUN,
        stage_defaults=_OFF_POLICY_SEVERAL_STAGES,
        goal_relabelling=True,
        requires=("continuous_actions",),
        search_space=_REPLAY_SPACE,
    ),
)

for _algorithm in BUILT_IN:
    add_algorithm(_algorithm, origin="mygym.algos")
