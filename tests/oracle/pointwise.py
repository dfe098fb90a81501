"""Elementwise operations, activations, comparisons, reductions, softmax, norms: in float64, as MIL defines them."""

import math

import numpy as np

from .registry import Flag, Float, FloatConst, FloatVector, Int, Ints, Mask, Scalar, Word, declare, operation, require

_erf = np.vectorize(math.erf, otypes=[np.float64])


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _softplus(x):
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


declare(
    {
        "add": np.add,
        "sub": np.subtract,
        "mul": np.multiply,
        "real_div": np.divide,
        "floor_div": lambda x, y: np.floor(x / y),
        "mod": lambda x, y: x - np.floor(x / y) * y,
        "maximum": np.maximum,
        "minimum": np.minimum,
        "pow": np.power,
        "equal": np.equal,
        "not_equal": np.not_equal,
        "greater": np.greater,
        "greater_equal": np.greater_equal,
        "less": np.less,
        "less_equal": np.less_equal,
    },
    x=Float,
    y=Float,
)
declare(
    {
        "abs": np.abs,
        "acos": np.arccos,
        "asin": np.arcsin,
        "atan": np.arctan,
        "atanh": np.arctanh,
        "ceil": np.ceil,
        "cos": np.cos,
        "cosh": np.cosh,
        "erf": _erf,
        "exp": np.exp,
        "exp2": np.exp2,
        "floor": np.floor,
        "relu": lambda x: np.maximum(x, 0),
        "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
        "round": np.rint,
        "sigmoid": _sigmoid,
        "sign": np.sign,
        "silu": lambda x: x * _sigmoid(x),
        "sin": np.sin,
        "sinh": np.sinh,
        "softplus": _softplus,
        "softsign": lambda x: x / (1 + np.abs(x)),
        "sqrt": np.sqrt,
        "square": np.square,
        "tan": np.tan,
        "tanh": np.tanh,
    },
    x=Float,
)
declare(
    {"logical_and": np.logical_and, "logical_or": np.logical_or, "logical_xor": np.logical_xor},
    x=Mask,
    y=Mask,
)
declare({"logical_not": np.logical_not}, x=Mask)
declare(
    {
        "log": lambda x, epsilon: np.log(x + epsilon),
        "rsqrt": lambda x, epsilon: 1 / np.sqrt(x + epsilon),
        "inverse": lambda x, epsilon: 1 / (x + epsilon),
    },
    x=Float,
    epsilon=Scalar,  # required here: the defaults of MIL (1e-45, 1e-12, 1e-4) surprise
)
declare(
    {
        "elu": lambda x, alpha: np.where(x > 0, x, alpha * np.expm1(x)),
        "leaky_relu": lambda x, alpha: np.where(x >= 0, x, alpha * x),
        "threshold": np.maximum,
        "thresholded_relu": lambda x, alpha: np.where(x >= alpha, x, 0),
    },
    x=Float,
    alpha=Scalar,
)
declare(
    {
        "linear_activation": lambda x, alpha, beta: alpha * x + beta,
        "scaled_tanh": lambda x, alpha, beta: alpha * np.tanh(beta * x),
        "sigmoid_hard": lambda x, alpha, beta: np.minimum(np.maximum(alpha * x + beta, 0), 1),
        "clamped_relu": lambda x, alpha, beta: np.minimum(np.where(x >= 0, x, alpha * x), beta),
    },
    x=Float,
    alpha=Scalar,
    beta=Scalar,
)


@operation
def clip(x: Float, alpha: Scalar, beta: Scalar):
    require(alpha < beta, f"clip needs alpha < beta, not {alpha} and {beta}")
    return np.minimum(np.maximum(x, alpha), beta)


@operation
def gelu(x: Float, mode: Word = "EXACT"):
    if mode == "EXACT":
        return 0.5 * x * (1 + _erf(x / math.sqrt(2)))
    if mode == "TANH_APPROXIMATION":
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    require(mode == "SIGMOID_APPROXIMATION", f"gelu mode {mode!r}")
    return x * _sigmoid(1.702 * x)


def _per_channel(x, *vectors):
    for v in vectors:
        require(v is None or v.shape == (x.shape[1],), f"a vector of {x.shape[1]} channels, not {np.shape(v)}")
    return [None if v is None else v.reshape(-1, *[1] * (x.ndim - 2)) for v in vectors]


@operation
def prelu(x: Float, alpha: FloatVector):
    require(3 <= x.ndim <= 5, "prelu takes rank 3 to 5")
    (slope,) = _per_channel(x, alpha)
    return np.where(x >= 0, x, slope * x)


@operation
def softplus_parametric(x: Float, alpha: FloatVector, beta: FloatVector):
    require(3 <= x.ndim <= 5, "softplus_parametric takes rank 3 to 5")
    a, b = _per_channel(x, alpha, beta)
    return a * _softplus(b * x)


@operation
def select(cond: Mask, a: Float, b: Float):
    shape = np.broadcast_shapes(np.shape(a), np.shape(b))
    require(
        np.broadcast_shapes(shape, np.shape(cond)) == shape, f"cond {np.shape(cond)} is larger than a and b {shape}"
    )
    return np.where(cond, a, b)


# ---- reductions


def _axes(x, axes):
    """Absent: all. Distinct and within the rank."""
    if axes is None:
        return tuple(range(x.ndim))
    normal = tuple(int(a) % x.ndim for a in axes if -x.ndim <= a < x.ndim)
    require(len(set(normal)) == len(axes) > 0, f"axes {axes} at rank {x.ndim}")
    return normal


def _reduce(name, function):
    def reduce(x: Float, axes: Ints = None, keep_dims: Flag = False):
        return function(x, _axes(x, axes), keep_dims)

    reduce.__name__ = name
    operation(reduce)


def _log_sum_exp(x, a, k):
    top = np.max(x, axis=a, keepdims=True)
    top = np.where(np.isfinite(top), top, 0)
    total = np.log(np.sum(np.exp(x - top), axis=a, keepdims=True)) + top
    return total if k else np.squeeze(total, axis=a)


for _name, _function in {
    "reduce_sum": lambda x, a, k: np.sum(x, axis=a, keepdims=k),
    "reduce_mean": lambda x, a, k: np.mean(x, axis=a, keepdims=k),
    "reduce_max": lambda x, a, k: np.max(x, axis=a, keepdims=k),
    "reduce_min": lambda x, a, k: np.min(x, axis=a, keepdims=k),
    "reduce_prod": lambda x, a, k: np.prod(x, axis=a, keepdims=k),
    "reduce_l1_norm": lambda x, a, k: np.sum(np.abs(x), axis=a, keepdims=k),
    "reduce_l2_norm": lambda x, a, k: np.sqrt(np.sum(x * x, axis=a, keepdims=k)),
    "reduce_sum_square": lambda x, a, k: np.sum(x * x, axis=a, keepdims=k),
    "reduce_log_sum": lambda x, a, k: np.log(np.sum(x, axis=a, keepdims=k)),
    "reduce_log_sum_exp": _log_sum_exp,
}.items():
    _reduce(_name, _function)


def softmax_of(x, axis):
    e = np.exp(x - np.max(x, axis=axis, keepdims=True))
    return e / np.sum(e, axis=axis, keepdims=True)


@operation
def softmax(x: Float, axis: Int = -1):
    require(-x.ndim <= axis < x.ndim, f"axis {axis} at rank {x.ndim}")
    return softmax_of(x, int(axis))


@operation
def cumsum(x: Float, axis: Int = 0, exclusive: Flag = False, reverse: Flag = False):
    run = np.flip(x, axis) if reverse else x
    total = np.cumsum(run, axis=axis)
    total = total - run if exclusive else total
    return np.flip(total, axis) if reverse else total


# ---- norms


@operation
def batch_norm(
    x: Float,
    *,
    mean: FloatVector,
    variance: FloatVector,
    gamma: FloatVector = None,
    beta: FloatVector = None,
    epsilon: Scalar = 1e-5,
):
    require(3 <= x.ndim <= 5, "batch_norm takes rank 3 to 5")
    m, v, g, b = _per_channel(x, mean, variance, gamma, beta)
    return (x - m) / np.sqrt(v + epsilon) * (1 if g is None else g) + (0 if b is None else b)


@operation
def instance_norm(x: Float, gamma: FloatVector = None, beta: FloatVector = None, epsilon: Scalar = 1e-5):
    require(3 <= x.ndim <= 4, "instance_norm takes rank 3 or 4")
    g, b = _per_channel(x, gamma, beta)
    return _normalized(x, tuple(range(2, x.ndim)), epsilon) * (1 if g is None else g) + (0 if b is None else b)


@operation
def layer_norm(x: Float, axes: Ints = None, gamma: FloatConst = None, beta: FloatConst = None, epsilon: Scalar = 1e-5):
    over = sorted(_axes(x, axes))
    shape = [x.shape[i] if i in over else 1 for i in range(x.ndim)]
    for v in (gamma, beta):
        require(v is None or v.shape == tuple(x.shape[i] for i in over), "gamma and beta have the normalized shape")
    g = 1 if gamma is None else gamma.reshape(shape)
    b = 0 if beta is None else beta.reshape(shape)
    return _normalized(x, tuple(over), epsilon) * g + b


def _normalized(x, axes, epsilon):
    centred = x - x.mean(axis=axes, keepdims=True)
    return centred / np.sqrt((centred * centred).mean(axis=axes, keepdims=True) + epsilon)


@operation
def l2_norm(x: Float, epsilon: Scalar = 1e-6):
    require(x.ndim >= 3, "l2_norm takes rank 3 or more")
    return x / np.sqrt(np.sum(x * x, axis=(-3, -2, -1), keepdims=True) + epsilon)


@operation
def local_response_norm(x: Float, size: Int, alpha: Scalar = 1e-4, beta: Scalar = 0.75, k: Scalar = 1.0):
    require(3 <= x.ndim <= 4, "local_response_norm takes rank 3 or 4")
    require(size % 2 == 1, "the window of an even size is not specified")
    half, channels = int(size) // 2, x.shape[1]
    total = np.stack(
        [np.sum(x[:, max(0, c - half) : c + half + 1] ** 2, axis=1) for c in range(channels)],
        axis=1,
    )
    return x / (k + alpha / size * total) ** beta
