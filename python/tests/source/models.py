"""Whole models as their users write them: attention in the style of Hugging Face, recurrent networks, trees."""

import math
from dataclasses import dataclass, field
from typing import List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


@dataclass
class Config:
    vocab_size: int = 97
    hidden_size: int = 16
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    intermediate_size: int = 32
    max_position_embeddings: int = 32
    type_vocab_size: int = 2
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    layer_norm_eps: float = 1e-12
    initializer_range: float = 0.02
    pad_token_id: int = 0
    use_cache: bool = True
    output_attentions: bool = False
    output_hidden_states: bool = False
    id2label: dict = field(default_factory=lambda: {0: "no", 1: "yes"})


def gelu_new(x):
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


ACT2FN = {"gelu": F.gelu, "gelu_new": gelu_new, "relu": F.relu, "swish": F.silu, "tanh": torch.tanh}


@dataclass
class SequenceClassifierOutput:
    logits: Tensor
    loss: Optional[Tensor] = None


# An encoder in the style of BERT.


class BertEmbeddings(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.word_embeddings = nn.Embedding(config.vocab_size, config.hidden_size, padding_idx=config.pad_token_id)
        self.position_embeddings = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.token_type_embeddings = nn.Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.register_buffer("position_ids", torch.arange(config.max_position_embeddings).expand((1, -1)))
        self.register_buffer("token_type_ids", torch.zeros(self.position_ids.size(), dtype=torch.long), persistent=False)

    def forward(self, input_ids=None, token_type_ids=None, position_ids=None, inputs_embeds=None, past_key_values_length=0):
        if input_ids is not None:
            input_shape = input_ids.size()
        else:
            input_shape = inputs_embeds.size()[:-1]
        seq_length = input_shape[1]
        if position_ids is None:
            position_ids = self.position_ids[:, past_key_values_length : seq_length + past_key_values_length]
        if token_type_ids is None:
            if hasattr(self, "token_type_ids"):
                buffered_token_type_ids = self.token_type_ids[:, :seq_length]
                token_type_ids = buffered_token_type_ids.expand(input_shape[0], seq_length)
            else:
                token_type_ids = torch.zeros(input_shape, dtype=torch.long, device=self.position_ids.device)
        if inputs_embeds is None:
            inputs_embeds = self.word_embeddings(input_ids)
        token_type_embeddings = self.token_type_embeddings(token_type_ids)
        embeddings = inputs_embeds + token_type_embeddings
        embeddings += self.position_embeddings(position_ids)
        return self.dropout(self.LayerNorm(embeddings))


class BertSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        if config.hidden_size % config.num_attention_heads != 0:
            raise ValueError("The hidden size is not a multiple of the number of attention heads")
        self.num_attention_heads = config.num_attention_heads
        self.attention_head_size = int(config.hidden_size / config.num_attention_heads)
        self.all_head_size = self.num_attention_heads * self.attention_head_size
        self.query = nn.Linear(config.hidden_size, self.all_head_size)
        self.key = nn.Linear(config.hidden_size, self.all_head_size)
        self.value = nn.Linear(config.hidden_size, self.all_head_size)
        self.dropout = nn.Dropout(config.attention_probs_dropout_prob)

    def transpose_for_scores(self, x: Tensor) -> Tensor:
        new_x_shape = x.size()[:-1] + (self.num_attention_heads, self.attention_head_size)
        x = x.view(new_x_shape)
        return x.permute(0, 2, 1, 3)

    def forward(
        self, hidden_states: Tensor, attention_mask: Optional[Tensor] = None, head_mask: Optional[Tensor] = None, output_attentions: bool = False
    ) -> Tuple[Tensor, ...]:
        key_layer = self.transpose_for_scores(self.key(hidden_states))
        value_layer = self.transpose_for_scores(self.value(hidden_states))
        query_layer = self.transpose_for_scores(self.query(hidden_states))
        attention_scores = torch.matmul(query_layer, key_layer.transpose(-1, -2))
        attention_scores = attention_scores / math.sqrt(self.attention_head_size)
        if attention_mask is not None:
            attention_scores = attention_scores + attention_mask
        attention_probs = nn.functional.softmax(attention_scores, dim=-1)
        attention_probs = self.dropout(attention_probs)
        if head_mask is not None:
            attention_probs = attention_probs * head_mask
        context_layer = torch.matmul(attention_probs, value_layer)
        context_layer = context_layer.permute(0, 2, 1, 3).contiguous()
        new_context_layer_shape = context_layer.size()[:-2] + (self.all_head_size,)
        context_layer = context_layer.view(new_context_layer_shape)
        return (context_layer, attention_probs) if output_attentions else (context_layer,)


class BertSelfOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        hidden_states = self.dropout(self.dense(hidden_states))
        return self.LayerNorm(hidden_states + input_tensor)


class BertAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self = BertSelfAttention(config)
        self.output = BertSelfOutput(config)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        self_outputs = self.self(hidden_states, attention_mask, head_mask, output_attentions)
        attention_output = self.output(self_outputs[0], hidden_states)
        return (attention_output,) + self_outputs[1:]


class BertIntermediate(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.intermediate_size)
        self.intermediate_act_fn = ACT2FN[config.hidden_act] if isinstance(config.hidden_act, str) else config.hidden_act

    def forward(self, hidden_states: Tensor) -> Tensor:
        return self.intermediate_act_fn(self.dense(hidden_states))


class BertOutput(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.intermediate_size, config.hidden_size)
        self.LayerNorm = nn.LayerNorm(config.hidden_size, eps=config.layer_norm_eps)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)

    def forward(self, hidden_states: Tensor, input_tensor: Tensor) -> Tensor:
        return self.LayerNorm(self.dropout(self.dense(hidden_states)) + input_tensor)


def apply_chunking_to_forward(forward_fn, chunk_size, chunk_dim, *input_tensors):
    assert len(input_tensors) > 0, f"{input_tensors} has to be a tuple/list of tensors"
    if chunk_size > 0:
        num_chunks = input_tensors[0].shape[chunk_dim] // chunk_size
        input_tensors_chunks = tuple(input_tensor.chunk(num_chunks, dim=chunk_dim) for input_tensor in input_tensors)
        output_chunks = tuple(forward_fn(*chunk) for chunk in zip(*input_tensors_chunks))
        return torch.cat(output_chunks, dim=chunk_dim)
    return forward_fn(*input_tensors)


class BertLayer(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.chunk_size_feed_forward = getattr(config, "chunk_size_feed_forward", 0)
        self.seq_len_dim = 1
        self.attention = BertAttention(config)
        self.intermediate = BertIntermediate(config)
        self.output = BertOutput(config)

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False):
        outputs = self.attention(hidden_states, attention_mask, head_mask, output_attentions=output_attentions)
        attention_output, outputs = outputs[0], outputs[1:]
        layer_output = apply_chunking_to_forward(self.feed_forward_chunk, self.chunk_size_feed_forward, self.seq_len_dim, attention_output)
        return (layer_output,) + outputs

    def feed_forward_chunk(self, attention_output):
        return self.output(self.intermediate(attention_output), attention_output)


class BertEncoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.layer = nn.ModuleList([BertLayer(config) for _ in range(config.num_hidden_layers)])

    def forward(self, hidden_states, attention_mask=None, head_mask=None, output_attentions=False, output_hidden_states=False):
        all_hidden_states = () if output_hidden_states else None
        all_self_attentions = () if output_attentions else None
        for i, layer_module in enumerate(self.layer):
            if output_hidden_states:
                all_hidden_states = all_hidden_states + (hidden_states,)
            layer_head_mask = head_mask[i] if head_mask is not None else None
            layer_outputs = layer_module(hidden_states, attention_mask, layer_head_mask, output_attentions)
            hidden_states = layer_outputs[0]
            if output_attentions:
                all_self_attentions = all_self_attentions + (layer_outputs[1],)
        if output_hidden_states:
            all_hidden_states = all_hidden_states + (hidden_states,)
        return tuple(v for v in [hidden_states, all_hidden_states, all_self_attentions] if v is not None)


class BertPooler(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.dense = nn.Linear(config.hidden_size, config.hidden_size)
        self.activation = nn.Tanh()

    def forward(self, hidden_states):
        first_token_tensor = hidden_states[:, 0]
        return self.activation(self.dense(first_token_tensor))


class BertModel(nn.Module):
    def __init__(self, config, add_pooling_layer=True):
        super().__init__()
        self.config = config
        self.embeddings = BertEmbeddings(config)
        self.encoder = BertEncoder(config)
        self.pooler = BertPooler(config) if add_pooling_layer else None
        self.apply(self._init_weights)

    def _init_weights(self, module):
        if isinstance(module, nn.Linear):
            module.weight.data.normal_(mean=0.0, std=0.2)
            module.bias.data.normal_(std=0.1)

    @property
    def dtype(self):
        return next(self.parameters()).dtype

    def get_extended_attention_mask(self, attention_mask: Tensor, input_shape: Tuple[int]) -> Tensor:
        if attention_mask.dim() == 3:
            extended_attention_mask = attention_mask[:, None, :, :]
        elif attention_mask.dim() == 2:
            extended_attention_mask = attention_mask[:, None, None, :]
        else:
            raise ValueError(f"Wrong shape for input_ids (shape {input_shape}) or attention_mask (shape {attention_mask.shape})")
        extended_attention_mask = extended_attention_mask.to(dtype=self.dtype)
        return (1.0 - extended_attention_mask) * torch.finfo(self.dtype).min

    def forward(
        self, input_ids=None, attention_mask=None, token_type_ids=None, position_ids=None, head_mask=None, inputs_embeds=None, output_attentions=None,
        output_hidden_states=None,
    ):  # fmt: skip
        output_attentions = output_attentions if output_attentions is not None else self.config.output_attentions
        output_hidden_states = output_hidden_states if output_hidden_states is not None else self.config.output_hidden_states
        if input_ids is not None and inputs_embeds is not None:
            raise ValueError("You cannot specify both input_ids and inputs_embeds at the same time")
        elif input_ids is not None:
            input_shape = input_ids.size()
        elif inputs_embeds is not None:
            input_shape = inputs_embeds.size()[:-1]
        else:
            raise ValueError("You have to specify either input_ids or inputs_embeds")
        batch_size, seq_length = input_shape
        device = input_ids.device if input_ids is not None else inputs_embeds.device
        if attention_mask is None:
            attention_mask = torch.ones(((batch_size, seq_length)), device=device)
        extended_attention_mask = self.get_extended_attention_mask(attention_mask, input_shape)
        embedding_output = self.embeddings(input_ids, token_type_ids, position_ids, inputs_embeds)
        encoder_outputs = self.encoder(embedding_output, extended_attention_mask, head_mask, output_attentions, output_hidden_states)
        sequence_output = encoder_outputs[0]
        pooled_output = self.pooler(sequence_output) if self.pooler is not None else None
        return (sequence_output, pooled_output) + encoder_outputs[1:]


class BertForSequenceClassification(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.num_labels = len(config.id2label)
        self.bert = BertModel(config)
        self.dropout = nn.Dropout(config.hidden_dropout_prob)
        self.classifier = nn.Linear(config.hidden_size, self.num_labels)

    def forward(self, input_ids, attention_mask=None, token_type_ids=None, labels=None):
        outputs = self.bert(input_ids, attention_mask=attention_mask, token_type_ids=token_type_ids)
        logits = self.classifier(self.dropout(outputs[1]))
        loss = None
        if labels is not None:
            loss_fct = nn.CrossEntropyLoss()
            loss = loss_fct(logits.view(-1, self.num_labels), labels.view(-1))
        return SequenceClassifierOutput(loss=loss, logits=logits)


# A decoder in the style of GPT-2, with a cache of keys and values.


class Conv1D(nn.Module):
    """A linear layer with transposed weights."""

    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf).normal_(std=0.2))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        size_out = x.size()[:-1] + (self.nf,)
        x = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return x.view(size_out)


class GPT2Attention(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        max_positions = config.max_position_embeddings
        self.register_buffer(
            "bias", torch.tril(torch.ones((max_positions, max_positions), dtype=torch.uint8)).view(1, 1, max_positions, max_positions)
        )
        self.register_buffer("masked_bias", torch.tensor(-1e4))
        self.embed_dim = config.hidden_size
        self.num_heads = config.num_attention_heads
        self.head_dim = self.embed_dim // self.num_heads
        self.split_size = self.embed_dim
        self.scale_attn_weights = True
        self.layer_idx = layer_idx
        self.c_attn = Conv1D(3 * self.embed_dim, self.embed_dim)
        self.c_proj = Conv1D(self.embed_dim, self.embed_dim)
        self.attn_dropout = nn.Dropout(0.1)
        self.resid_dropout = nn.Dropout(0.1)

    def _attn(self, query, key, value, attention_mask=None):
        attn_weights = torch.matmul(query, key.transpose(-1, -2))
        if self.scale_attn_weights:
            attn_weights = attn_weights / torch.tensor(value.size(-1) ** 0.5, dtype=attn_weights.dtype, device=attn_weights.device)
        query_length, key_length = query.size(-2), key.size(-2)
        causal_mask = self.bias[:, :, key_length - query_length : key_length, :key_length].to(torch.bool)
        mask_value = torch.finfo(attn_weights.dtype).min
        mask_value = torch.tensor(mask_value, dtype=attn_weights.dtype).to(attn_weights.device)
        attn_weights = torch.where(causal_mask, attn_weights, mask_value)
        if attention_mask is not None:
            attn_weights = attn_weights + attention_mask
        attn_weights = nn.functional.softmax(attn_weights, dim=-1)
        attn_weights = attn_weights.type(value.dtype)
        attn_weights = self.attn_dropout(attn_weights)
        return torch.matmul(attn_weights, value), attn_weights

    def _split_heads(self, tensor, num_heads, attn_head_size):
        new_shape = tensor.size()[:-1] + (num_heads, attn_head_size)
        return tensor.view(new_shape).permute(0, 2, 1, 3)

    def _merge_heads(self, tensor, num_heads, attn_head_size):
        tensor = tensor.permute(0, 2, 1, 3).contiguous()
        return tensor.view(tensor.size()[:-2] + (num_heads * attn_head_size,))

    def forward(self, hidden_states, layer_past=None, attention_mask=None, use_cache=False):
        query, key, value = self.c_attn(hidden_states).split(self.split_size, dim=2)
        query = self._split_heads(query, self.num_heads, self.head_dim)
        key = self._split_heads(key, self.num_heads, self.head_dim)
        value = self._split_heads(value, self.num_heads, self.head_dim)
        if layer_past is not None:
            past_key, past_value = layer_past
            key = torch.cat((past_key, key), dim=-2)
            value = torch.cat((past_value, value), dim=-2)
        present = (key, value) if use_cache is True else None
        attn_output, attn_weights = self._attn(query, key, value, attention_mask)
        attn_output = self._merge_heads(attn_output, self.num_heads, self.head_dim)
        attn_output = self.resid_dropout(self.c_proj(attn_output))
        return attn_output, present


class GPT2MLP(nn.Module):
    def __init__(self, intermediate_size, config):
        super().__init__()
        self.c_fc = Conv1D(intermediate_size, config.hidden_size)
        self.c_proj = Conv1D(config.hidden_size, intermediate_size)
        self.act = ACT2FN["gelu_new"]
        self.dropout = nn.Dropout(0.1)

    def forward(self, hidden_states):
        return self.dropout(self.c_proj(self.act(self.c_fc(hidden_states))))


class GPT2Block(nn.Module):
    def __init__(self, config, layer_idx=None):
        super().__init__()
        self.ln_1 = nn.LayerNorm(config.hidden_size, eps=1e-5)
        self.attn = GPT2Attention(config, layer_idx=layer_idx)
        self.ln_2 = nn.LayerNorm(config.hidden_size, eps=1e-5)
        self.mlp = GPT2MLP(4 * config.hidden_size, config)

    def forward(self, hidden_states, layer_past=None, attention_mask=None, use_cache=False):
        residual = hidden_states
        attn_outputs = self.attn(self.ln_1(hidden_states), layer_past=layer_past, attention_mask=attention_mask, use_cache=use_cache)
        attn_output, outputs = attn_outputs[0], attn_outputs[1:]
        hidden_states = attn_output + residual
        residual = hidden_states
        hidden_states = residual + self.mlp(self.ln_2(hidden_states))
        return (hidden_states,) + outputs if use_cache else (hidden_states,) + outputs[1:]


class GPT2LMHeadModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.wte = nn.Embedding(config.vocab_size, config.hidden_size)
        self.wpe = nn.Embedding(config.max_position_embeddings, config.hidden_size)
        self.drop = nn.Dropout(0.1)
        self.h = nn.ModuleList([GPT2Block(config, layer_idx=i) for i in range(config.num_hidden_layers)])
        self.ln_f = nn.LayerNorm(config.hidden_size, eps=1e-5)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.lm_head.weight = self.wte.weight

    def forward(self, input_ids, past_key_values=None, attention_mask=None):
        input_shape = input_ids.size()
        input_ids = input_ids.view(-1, input_shape[-1])
        batch_size = input_ids.shape[0]
        if past_key_values is None:
            past_length = 0
            past_key_values = tuple([None] * len(self.h))
        else:
            past_length = past_key_values[0][0].size(-2)
        position_ids = torch.arange(past_length, input_shape[-1] + past_length, dtype=torch.long, device=input_ids.device)
        position_ids = position_ids.unsqueeze(0).view(-1, input_shape[-1])
        if attention_mask is not None:
            attention_mask = attention_mask.view(batch_size, -1)
            attention_mask = attention_mask[:, None, None, :]
            attention_mask = attention_mask.to(dtype=self.wte.weight.dtype)
            attention_mask = (1.0 - attention_mask) * torch.finfo(torch.float32).min
        hidden_states = self.drop(self.wte(input_ids) + self.wpe(position_ids))
        output_shape = input_shape + (hidden_states.size(-1),)
        presents = () if self.config.use_cache else None
        for i, (block, layer_past) in enumerate(zip(self.h, past_key_values)):
            outputs = block(hidden_states, layer_past=layer_past, attention_mask=attention_mask, use_cache=self.config.use_cache)
            hidden_states = outputs[0]
            if self.config.use_cache:
                presents = presents + (outputs[1],)
        hidden_states = self.ln_f(hidden_states).view(output_shape)
        return self.lm_head(hidden_states), presents


class Generator(nn.Module):
    """A decoder that keeps its cache in a list from call to call."""

    def __init__(self, config):
        super().__init__()
        self.model = GPT2LMHeadModel(config)
        heads, size = config.num_attention_heads, config.hidden_size // config.num_attention_heads
        self.cache = [(torch.zeros(1, heads, 0, size), torch.zeros(1, heads, 0, size)) for _ in range(config.num_hidden_layers)]

    def forward(self, input_ids):
        logits, presents = self.model(input_ids, past_key_values=self.cache)
        for i, present in enumerate(presents):
            self.cache[i] = present
        return logits[:, -1].argmax(-1)


class GreedySearch(nn.Module):
    """Generation until the end token, with the cache as a value that begins as None."""

    def __init__(self, config, eos_token_id):
        super().__init__()
        self.model = GPT2LMHeadModel(config)
        self.eos_token_id = eos_token_id

    def forward(self, input_ids, max_length: int):
        past_key_values = None
        next_input = input_ids
        while input_ids.shape[1] < max_length:
            logits, past_key_values = self.model(next_input, past_key_values)
            next_input = logits[:, -1, :].argmax(dim=-1, keepdim=True)
            input_ids = torch.cat([input_ids, next_input], dim=-1)
            if (next_input == self.eos_token_id).all():
                break
        return input_ids


# A transformer of an encoder and a decoder, and recurrent networks.


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=64):
        super().__init__()
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return self.dropout(x + self.pe[: x.size(0)])


class Seq2SeqTransformer(nn.Module):
    def __init__(self, vocabulary=53, emb_size=16, heads=2, layers=2, hidden=32, batch_first=False, norm_first=False):
        super().__init__()
        self.transformer = nn.Transformer(emb_size, heads, layers, layers, hidden, batch_first=batch_first, norm_first=norm_first)
        self.generator = nn.Linear(emb_size, vocabulary)
        self.src_tok_emb = nn.Embedding(vocabulary, emb_size)
        self.tgt_tok_emb = nn.Embedding(vocabulary, emb_size)
        self.positional_encoding = PositionalEncoding(emb_size)
        self.emb_size = emb_size
        self.batch_first = batch_first

    def embed(self, table, tokens):
        x = table(tokens.long()) * math.sqrt(self.emb_size)
        if self.batch_first:
            return self.positional_encoding(x.transpose(0, 1)).transpose(0, 1)
        return self.positional_encoding(x)

    def forward(self, src, tgt, pad_idx: int = 1):
        tgt_mask = self.transformer.generate_square_subsequent_mask(tgt.shape[1 if self.batch_first else 0])
        src_padding_mask = src == pad_idx
        tgt_padding_mask = tgt == pad_idx
        if not self.batch_first:
            src_padding_mask, tgt_padding_mask = src_padding_mask.transpose(0, 1), tgt_padding_mask.transpose(0, 1)
        outs = self.transformer(
            self.embed(self.src_tok_emb, src), self.embed(self.tgt_tok_emb, tgt), tgt_mask=tgt_mask, src_key_padding_mask=src_padding_mask,
            tgt_key_padding_mask=tgt_padding_mask, memory_key_padding_mask=src_padding_mask,
        )  # fmt: skip
        return self.generator(outs)

    def encode(self, src, src_mask):
        return self.transformer.encoder(self.embed(self.src_tok_emb, src), src_mask)

    def decode(self, tgt, memory, tgt_mask):
        return self.transformer.decoder(self.embed(self.tgt_tok_emb, tgt), memory, tgt_mask)


class LSTMTagger(nn.Module):
    def __init__(self, vocabulary=41, embedding=8, hidden=12, tags=5, layers=2, bidirectional=True):
        super().__init__()
        self.word_embeddings = nn.Embedding(vocabulary, embedding)
        self.lstm = nn.LSTM(embedding, hidden, layers, batch_first=True, dropout=0.2, bidirectional=bidirectional)
        self.hidden2tag = nn.Linear(hidden * (2 if bidirectional else 1), tags)

    def forward(self, sentence, state=None):
        embeds = self.word_embeddings(sentence)
        lstm_out, state = self.lstm(embeds, state)
        return F.log_softmax(self.hidden2tag(lstm_out), dim=-1), state


# Tree-LSTMs: with the tree as data, as levels of nodes, and as Python objects.


class TreeLSTMCell(nn.Module):
    """The child-sum cell of Tai, Socher and Manning."""

    def __init__(self, x_size, h_size):
        super().__init__()
        self.W_iou = nn.Linear(x_size, 3 * h_size, bias=False)
        self.U_iou = nn.Linear(h_size, 3 * h_size, bias=False)
        self.b_iou = nn.Parameter(torch.zeros(1, 3 * h_size))
        self.U_f = nn.Linear(h_size, h_size)
        self.W_f = nn.Linear(x_size, h_size, bias=False)

    def node_forward(self, x, child_h, child_c):
        iou = self.W_iou(x) + self.U_iou(torch.sum(child_h, dim=0, keepdim=True)) + self.b_iou
        i, o, u = torch.chunk(iou, 3, dim=1)
        f = torch.sigmoid(self.U_f(child_h) + self.W_f(x))
        c = torch.sigmoid(i) * torch.tanh(u) + torch.sum(f * child_c, dim=0, keepdim=True)
        return torch.sigmoid(o) * torch.tanh(c), c


class TreeLSTMOfIndices(nn.Module):
    """Nodes are in the order of evaluation. children[n] has the indices of the two children of node n, or -1."""

    def __init__(self, vocabulary=31, x_size=6, h_size=8, classes=5):
        super().__init__()
        self.h_size = h_size
        self.embedding = nn.Embedding(vocabulary, x_size)
        self.cell = TreeLSTMCell(x_size, h_size)
        self.linear = nn.Linear(h_size, classes)

    def forward(self, words, children):
        n = words.size(0)
        h, c = torch.zeros(n, self.h_size), torch.zeros(n, self.h_size)
        x = self.embedding(words)
        for node in range(n):
            kids = children[node]
            kids = kids[kids >= 0]
            h[node : node + 1], c[node : node + 1] = self.cell.node_forward(x[node : node + 1], h[kids], c[kids])
        return self.linear(h)


class TreeLSTMOfLists(TreeLSTMOfIndices):
    """The states of the nodes are lists, to which each node is appended."""

    def forward(self, words, children):
        h_of: List[Tensor] = []
        c_of: List[Tensor] = []
        for node in range(words.size(0)):
            x = self.embedding(words[node]).unsqueeze(0)
            left, right = int(children[node, 0]), int(children[node, 1])
            if left < 0:
                child_h = child_c = torch.zeros(1, self.h_size)
            else:
                child_h = torch.cat([h_of[left], h_of[right]], 0)
                child_c = torch.cat([c_of[left], c_of[right]], 0)
            h, c = self.cell.node_forward(x, child_h, child_c)
            h_of.append(h)
            c_of.append(c)
        return self.linear(h_of[-1]), torch.cat(h_of)


class TreeLSTMOfLevels(nn.Module):
    """All nodes of a level at once: node_order has the level of each node, adjacency the pairs of parent and child."""

    def __init__(self, in_features=6, out_features=8):
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.W_iou = nn.Linear(in_features, 3 * out_features)
        self.U_iou = nn.Linear(out_features, 3 * out_features, bias=False)
        self.W_f = nn.Linear(in_features, out_features)
        self.U_f = nn.Linear(out_features, out_features, bias=False)

    def forward(self, features, node_order, adjacency_list, edge_order):
        batch_size = node_order.shape[0]
        device = next(self.parameters()).device
        h = torch.zeros(batch_size, self.out_features, device=device)
        c = torch.zeros(batch_size, self.out_features, device=device)
        for n in range(int(node_order.max()) + 1):
            self._run_lstm(n, h, c, features, node_order, adjacency_list, edge_order)
        return h, c

    def _run_lstm(self, iteration, h, c, features, node_order, adjacency_list, edge_order):
        node_mask = node_order == iteration
        edge_mask = edge_order == iteration
        x = features[node_mask, :]
        if iteration == 0:
            iou = self.W_iou(x)
        else:
            adjacency_list = adjacency_list[edge_mask, :]
            parent_indexes = adjacency_list[:, 0]
            child_indexes = adjacency_list[:, 1]
            child_h = h[child_indexes, :]
            child_c = c[child_indexes, :]
            sums = torch.zeros_like(h).index_add(0, parent_indexes, child_h)
            iou = self.W_iou(x) + self.U_iou(sums[node_mask, :])
        i, o, u = torch.split(iou, iou.size(1) // 3, dim=1)
        i, o, u = torch.sigmoid(i), torch.sigmoid(o), torch.tanh(u)
        if iteration == 0:
            c[node_mask, :] = i * u
        else:
            f = self.W_f(features[parent_indexes, :]) + self.U_f(child_h)
            f = torch.sigmoid(f)
            fc = f * child_c
            c[node_mask, :] = i * u + torch.zeros_like(c).index_add(0, parent_indexes, fc)[node_mask, :]
        h[node_mask, :] = o * torch.tanh(c[node_mask])


class Tree:
    def __init__(self, word=None, children=()):
        self.word = word
        self.children = list(children)

    def size(self):
        return 1 + sum(child.size() for child in self.children)


class TreeLSTMOfObjects(nn.Module):
    """A tree that is known when the program is compiled; the words are data."""

    def __init__(self, tree, vocabulary=31, x_size=6, h_size=8, classes=5):
        super().__init__()
        self.tree = tree
        self.embedding = nn.Embedding(vocabulary, x_size)
        self.cell = TreeLSTMCell(x_size, h_size)
        self.h_size = h_size
        self.linear = nn.Linear(h_size, classes)

    def visit(self, tree, x):
        states = [self.visit(child, x) for child in tree.children]
        if not states:
            child_h = child_c = torch.zeros(1, self.h_size)
        else:
            child_h, child_c = map(lambda parts: torch.cat(parts, dim=0), zip(*states))
        return self.cell.node_forward(x[tree.word].unsqueeze(0), child_h, child_c)

    def forward(self, words):
        h, c = self.visit(self.tree, self.embedding(words))
        return F.log_softmax(self.linear(h), dim=1)


class BinaryTreeLSTM(nn.Module):
    """A stack of states and a list of transitions, as in SPINN: 0 shifts a word, 1 reduces two states."""

    def __init__(self, vocabulary=31, size=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, 2 * size)
        self.left = nn.Linear(size, 5 * size)
        self.right = nn.Linear(size, 5 * size, bias=False)

    def reduce(self, left, right):
        (h1, c1), (h2, c2) = left.chunk(2, 1), right.chunk(2, 1)
        a, i, f1, f2, o = (self.left(h1) + self.right(h2)).chunk(5, 1)
        c = a.tanh() * i.sigmoid() + f1.sigmoid() * c1 + f2.sigmoid() * c2
        return torch.cat([o.sigmoid() * c.tanh(), c], 1)

    def forward(self, words, transitions):
        buffers = self.embed(words).unsqueeze(1)
        stack: List[Tensor] = []
        at = 0
        for transition in transitions:
            if transition == 0:
                stack.append(buffers[at])
                at += 1
            else:
                right = stack.pop()
                left = stack.pop()
                stack.append(self.reduce(left, right))
        return stack.pop()
