"""The public names of ANEForge 0.4.0 that serve inference, with their parameters and defaults, as its users call them."""


def words(text: str) -> list[str]:
    return text.split()


# name -> parameters after self, in order, with defaults
FUNCTIONS = {
    "input": "shape, dtype='fp16', max_abs=None",
    "image_input": "shape, scale=1/255, bias=0.0",
    "compile": "out, int8=False, build_dir=None, opt='routes', compress=None, compress_atol=0.05, block_size=32, validate=False, target=None",
    "load_onnx": "path, fuse_attention=False, approx_resize=False",
    "onnx_to_tensor": "path, approx_resize=False",
    "onnx_to_features": "path",
    "select": "cond, a, b",
    "where": "cond, a, b",
    "concat": "tensors, axis=1",
    "stack": "tensors, axis=0",
    "split": "x, num_splits, axis=0",
    "gather": "x, indices, axis=0",
    "crop": "x, top, bottom, left, right",
    "maximum": "a, b",
    "minimum": "a, b",
    "einsum": "equation, *operands",
    "batch_norm": "x, gamma, beta, mean, var, eps=1e-5",
    "instance_norm": "x, gamma, beta, eps=1e-5",
    "local_response_norm": "x, size=5, alpha=1e-4, beta=0.75, k=1.0",
    "conv": "x, weight, stride=1, pad=0, dilation=1, groups=1, bias=None",
    "dynamic_conv": "x, weight, stride=1, pad=0, dilation=1, groups=1",
    "conv_transpose": "x, weight, stride=1, pad=0, dilation=1, groups=1, bias=None",
    "resize_nearest_neighbor": "x, target_h, target_w",
    "resize_bilinear": "x, target_h, target_w, align_corners=False",
    "upsample_bilinear": "x, scale=2, align_corners=False",
    "pixel_shuffle": "x, r",
    "pixel_unshuffle": "x, r",
    "space_to_depth": "x, block_size=2",
    "depth_to_space": "x, block_size=2",
    "sdpa": "q, k, v, scale=None, is_causal=False, attn_mask=None",
    "mha": "x, Wq, bq, Wk, bk, Wv, bv, Wo, bo, n_heads, mask=None",
    "cross_attention": "x, context, Wq, Wk, Wv, Wo, n_heads, bq=None, bk=None, bv=None, bo=None",
    "geglu": "x, W, b",
    "topk": "x, k, largest=True",
    "sort": "x, descending=False, return_indices=False",
}

METHODS = {
    **dict.fromkeys(
        words(
            "relu gelu silu sigmoid tanh exp sqrt abs square sin cos erf softplus relu6 softsign atan exp2 floor ceil "
            "round sign logical_not"
        ),
        "",
    ),
    **dict.fromkeys(words("log rsqrt inverse"), "eps=0.0"),
    "elu": "alpha=1.0",
    "leaky_relu": "alpha=0.01",
    "clip": "lo, hi",
    "clamp": "lo, hi",
    "scaled_tanh": "alpha=1.0, beta=1.0",
    "threshold": "alpha=0.0",
    "thresholded_relu": "alpha=1.0",
    "clamped_relu": "alpha=0.0, beta=6.0",
    "sigmoid_hard": "alpha=0.2, beta=0.5",
    "linear_activation": "alpha=1.0, beta=0.0",
    "prelu": "alpha",
    "pow": "o",
    "adds": "k",
    **dict.fromkeys(words("greater less equal not_equal less_equal greater_equal"), "other"),
    **dict.fromkeys(words("mean sum amax amin l1_norm log_sum sum_square reduce_log_sum_exp"), "axes"),
    "cumsum": "axis=-1",
    "softmax": "axis=-1",
    "l2_norm": "axis=-1, eps=1e-12",
    "argmax": "axis=-1",
    "linear": "W, bias=None",
    "bmm_weight": "W",
    "reshape": "*shape",
    "transpose": "*perm",
    "squeeze": "axes",
    "expand_dims": "axes",
    "flatten2d": "axis=1",
    "slice_by_size": "begin, size",
    "reverse": "axes",
    "tile": "reps",
    "rms_norm": "gamma, eps=1e-5",
    "layer_norm": "gamma, beta, eps=1e-5",
    "channel_layer_norm": "gamma, beta, eps=1e-5",
    "group_norm": "gamma, beta, num_groups, eps=1e-5",
    "max_pool": "k, stride=None, pad=0, ceil_mode=False",
    "avg_pool": "k, stride=None, pad=0, ceil_mode=False, exclude_pad=False",
    "upsample": "scale=2",
    **dict.fromkeys(words("__add__ __sub__ __mul__ __truediv__ __pow__ __matmul__"), "other"),
}

MODEL = {
    "__call__": "*arrays",
    "input_view": "name=None",
    "execute": "",
    "output_view": "",
    "release": "",
    "n_ops": None,
}

ATTRIBUTES = ("shape", "op", "srcs", "attrs")

OTHERS = words(
    "Model SegmentedModel compile_multi MultiModel PrecisionWarning DispatchFloorWarning CrossChipFP16Warning "
    "CompileBackoffError reset_compile_breaker affine cross_product cross_correlation cost_volume fps "
    "radius_search minmax_norm lrn space_to_channel channel_to_space space_to_batch batch_to_space flatten input_view "
    "dynamic_slice scaled_elementwise einsum_native estimate estimate_provenance project_peak precision_risk op_info "
    "device_status is_native ops_on min_native_family walled_everywhere categories OP_CATALOG tune tune_precision "
    "tune_attention attention_tiles reduce_sum_to_matmul Paired paired paired_subtract fft linalg special dsp moe parameter "
    "backward backward_from mse softmax_cross_entropy SGD Adam adam_step Trainer UnrolledTrainer CheckpointedStack conv2d "
    "conv_param conv_block cifar_cnn group_norm_train load load_resnet load_resnet18 load_vit load_clip load_gpt2 load_llm "
    "load_whisper Encoder Vision ViT GPT2 CLIP Whisper LlamaConfig LlamaPrefill prefill_block rope rope_tables"
)
