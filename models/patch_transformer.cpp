#include <ATen/ATen.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <memory>
#include <stdexcept>

#include "models/dropout.h"
#include "models/layer_norm.h"
#include "models/registry.h"

namespace longship::models {
namespace {

struct TransformerOptions {
  int64_t patch = 16;
  int64_t stride = 8;
  int64_t width = 128;
  int64_t heads = 16;
  int64_t feed_forward = 256;
  int64_t num_layers = 3;
  double dropout = 0.2;
};

// The parameters of torch.nn.MultiheadAttention under its names, and its attention of a sequence to
// itself.
class SelfAttention : public torch::nn::Module {
 public:
  SelfAttention(int64_t width, int64_t heads) : width_(width), heads_(heads) {
    in_weight_ = register_parameter("in_proj_weight", at::empty({3 * width, width}));
    in_bias_ = register_parameter("in_proj_bias", at::zeros({3 * width}));
    out_ = register_module("out_proj", std::make_shared<Fp8Linear>(width, width));
    // As torch.nn.MultiheadAttention initialises itself.
    torch::nn::init::xavier_uniform_(in_weight_);
    torch::nn::init::zeros_(out_->bias);
  }

  // (sequences, length, width) -> the same.
  at::Tensor forward(const at::Tensor& x) {
    const int64_t sequences = x.size(0);
    const int64_t length = x.size(1);
    const at::Tensor projected = fp8_linear(x, in_weight_, in_bias_, in_fp8)
                                     .view({sequences, length, 3, heads_, width_ / heads_})
                                     .permute({2, 0, 3, 1, 4});
    const at::Tensor mixed =
        at::scaled_dot_product_attention(projected[0], projected[1], projected[2]);
    return out_->transform(mixed.transpose(1, 2).reshape({sequences, length, width_}));
  }

  Fp8Layer in_fp8;  // of the projection of the input

 private:
  int64_t width_;
  int64_t heads_;
  at::Tensor in_weight_;
  at::Tensor in_bias_;
  std::shared_ptr<Fp8Linear> out_;
};

// torch.nn.TransformerEncoderLayer with GELU and the norm after each part, but for its dropout of
// attention weights, which fused attention kernels draw from a generator that knows no micro-batch.
class EncoderLayer : public torch::nn::Module {
 public:
  EncoderLayer(const TransformerOptions& options, int64_t number)
      : dropout_(options.dropout), number_(number) {
    attention_ =
        register_module("self_attn", std::make_shared<SelfAttention>(options.width, options.heads));
    linear1_ = register_module("linear1",
                               std::make_shared<Fp8Linear>(options.width, options.feed_forward));
    linear2_ = register_module("linear2",
                               std::make_shared<Fp8Linear>(options.feed_forward, options.width));
    const auto norm = torch::nn::LayerNormOptions({options.width});
    norm1_ = register_module("norm1", torch::nn::LayerNorm(norm));
    norm2_ = register_module("norm2", torch::nn::LayerNorm(norm));
  }

  at::Tensor forward(const at::Tensor& x, const RandomKey& random) {
    const auto drop = [&](const at::Tensor& values, int64_t place) {
      constexpr int64_t kPlaces = 3;
      return is_training() ? dropout(values, dropout_, random, kPlaces * number_ + place) : values;
    };
    const at::Tensor attended = layer_norm(x + drop(attention_->forward(x), 0), *norm1_);
    const at::Tensor hidden = drop(at::gelu(linear1_->transform(attended)), 1);
    return layer_norm(attended + drop(linear2_->transform(hidden), 2), *norm2_);
  }

 private:
  double dropout_;
  int64_t number_;
  std::shared_ptr<SelfAttention> attention_;
  std::shared_ptr<Fp8Linear> linear1_;
  std::shared_ptr<Fp8Linear> linear2_;
  torch::nn::LayerNorm norm1_{nullptr};
  torch::nn::LayerNorm norm2_{nullptr};
};

// The encoder's layers under the names of torch.nn.TransformerEncoder.
class Encoder : public torch::nn::Module {
 public:
  explicit Encoder(const TransformerOptions& options) {
    layers_ = register_module("layers", torch::nn::ModuleList());
    for (int64_t layer = 0; layer < options.num_layers; ++layer) {
      layers_->push_back(std::make_shared<EncoderLayer>(options, layer));
    }
  }
  at::Tensor forward(at::Tensor x, const RandomKey& random) {
    for (const auto& layer : *layers_) x = layer->as<EncoderLayer>()->forward(x, random);
    return x;
  }

 private:
  torch::nn::ModuleList layers_{nullptr};
};

// A transformer over patches of each column by itself, with weights that all columns share: the
// last value is repeated `stride` times, patches of `patch` steps every `stride` are embedded, get
// a learned position, pass the encoder, and one linear layer takes all of them to the horizon.
// Column i of the inputs forecasts target i, so there are as many of the ones as of the others.
//   emb.weight (width, patch), pos (patches, width), enc.layers.N..., head.weight
class PatchTransformer : public Forecaster {
 public:
  PatchTransformer(const TransformerOptions& options, const ModelShape& shape)
      : options_(options),
        shape_(shape),
        patches_((shape.window - options.patch) / options.stride + 2) {
    if (!shape.targets_are_inputs) {
      throw std::invalid_argument(
          "patch_transformer forecasts each column from its own past: data.inputs and data.targets "
          "must be the same columns in the same order");
    }
    if (options.patch > shape.window) {
      throw std::invalid_argument("model.patch is longer than data.window");
    }
    if (options.width % options.heads != 0) {
      throw std::invalid_argument("model.heads must divide model.width");
    }
    embedding_ = register_module("emb", std::make_shared<Fp8Linear>(options.patch, options.width));
    position_ = register_parameter("pos", at::empty({patches_, options.width}));
    torch::nn::init::uniform_(position_, -0.02, 0.02);
    encoder_ = register_module("enc", std::make_shared<Encoder>(options));
    head_ = register_module("head", std::make_shared<Fp8Linear>(patches_ * options.width,
                                                                shape.horizon * shape.outputs));
  }

  Forecast forward(const Inputs& inputs) override {
    const int64_t batch = inputs.past.size(0);
    const at::Tensor columns =
        inputs.past.transpose(1, 2).reshape({batch * shape_.inputs, shape_.window});
    const at::Tensor end = columns.narrow(1, shape_.window - 1, 1).expand({-1, options_.stride});
    const at::Tensor patches =
        at::cat({columns, end}, 1).unfold(1, options_.patch, options_.stride);
    const at::Tensor encoded =
        encoder_->forward(embedding_->transform(patches) + position_, inputs.random);
    return {head_->transform(encoded.flatten(1))
                .view({batch, shape_.targets, shape_.horizon, shape_.outputs})
                .transpose(1, 2)};
  }

  std::vector<Fp8Layer*> fp8_layers() override {
    std::vector<Fp8Layer*> layers;
    for (const auto& module : modules()) {
      if (auto* linear = module->as<Fp8Linear>()) layers.push_back(&linear->fp8);
      if (auto* attention = module->as<SelfAttention>()) layers.push_back(&attention->in_fp8);
    }
    return layers;
  }

  double forward_flops() const override {
    const auto width = static_cast<double>(options_.width);
    const auto patches = static_cast<double>(patches_);
    const double layer =
        patches * width * (4 * width + 2 * static_cast<double>(options_.feed_forward)) +
        2 * patches * patches * width;
    const double column = patches * static_cast<double>(options_.patch) * width +
                          static_cast<double>(options_.num_layers) * layer +
                          static_cast<double>(head_->weight.numel());
    return 2 * column * static_cast<double>(shape_.inputs);
  }

 private:
  TransformerOptions options_;
  ModelShape shape_;
  int64_t patches_;
  std::shared_ptr<Fp8Linear> embedding_;
  at::Tensor position_;
  std::shared_ptr<Encoder> encoder_;
  std::shared_ptr<Fp8Linear> head_;
};

const Registration registration(ModelSpec{
    "patch_transformer",
    "transformer encoder over patches of each column, with weights that all columns share",
    {
        {"patch", int64_t{16}, 1, 65536, {}, "rows", "length of a patch"},
        {"stride", int64_t{8}, 1, 65536, {}, "rows", "distance between patches"},
        {"width", int64_t{128}, 1, 65536, {}, "units", "width of an embedded patch"},
        {"heads", int64_t{16}, 1, 1024, {}, "", "attention heads; divides the width"},
        {"feed_forward", int64_t{256}, 1, 65536, {}, "units", "width of the feed-forward part"},
        {"num_layers", int64_t{3}, 1, 64, {}, "layers", "encoder layers"},
        {"dropout", 0.2, 0, 0.99, {}, "probability", "dropout of each part's result"},
    },
    [](const Options& options, const ModelShape& shape) -> std::shared_ptr<Forecaster> {
      TransformerOptions transformer;
      transformer.patch = options.integer("patch");
      transformer.stride = options.integer("stride");
      transformer.width = options.integer("width");
      transformer.heads = options.integer("heads");
      transformer.feed_forward = options.integer("feed_forward");
      transformer.num_layers = options.integer("num_layers");
      transformer.dropout = options.number("dropout");
      return std::make_shared<PatchTransformer>(transformer, shape);
    },
});

}  // namespace
}  // namespace longship::models
