"""Deep-GPCM: a key-value memory that follows what a student knows, read out as a generalized partial credit model.

Legend: B students, S steps, Q questions and the unknown one, K categories, H = K-1 thresholds, N slots, D value size,
F hidden size, R rows of (question, response).

For step t, with question q and response r:

    k = Emb(q);  w = softmax(tanh(W k) M_key^T)        which slots the question is about
    read = w^T M_{t-1};  f = tanh(W [read; k])         before the answer is seen
    theta, alpha, beta = heads(f, k)                   -> logits of the K categories
    e = sigmoid(W_e v), a = tanh(W_a v), v = V(q, r)   the answer
    M_t = M_{t-1} (1 - w e^T) + w a^T                  is written after it was predicted

w depends on the question alone and e, a on (question, response) alone, so they are tables, computed once per call: of
all questions, or of those in the batch where these are fewer. Predictions are causal by construction: step t reads the
memory before anything of t is written. `stepwise.py` computes the same step by step.

In training, features of f are dropped (after tanh, once), and a few steps have their question replaced by the unknown
one, so that its row is learned.
"""

from dataclasses import asdict, dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from ...core.base.arguments import check_type
from ...core.declare.config import build, option
from . import dropout as masks
from . import embedding, partial_credit
from .heads import ALPHA_OF, ALPHAS, BETAS, Heads
from .memory import run, run_packed

DROPPED, MADE_UNKNOWN = 1, 2  # which mask a hash is for


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """The sizes and variants of the model that a user may choose."""

    slots: int = option(50, help="slots of the memory", ge=1)
    key_size: int = option(64, help="size of a question's key", ge=1)
    value_size: int = option(128, help="size of a slot's value", ge=1)
    hidden: int = option(50, help="size of the hidden state", ge=1)
    dropout: float = option(0.05, help="share of hidden features dropped in training", ge=0, lt=1)
    unknown: float = option(0.005, help="share of training steps whose question is made unknown", ge=0, lt=1)
    embedding: str = option("linear_decay", help="of responses", choices=embedding.EMBEDDINGS)
    alpha: str = option("exp", help="how discrimination is made positive", choices=ALPHAS)
    alpha_of: str = option("both", help="whether discrimination depends on the student too", choices=ALPHA_OF)
    beta: str = option("monotone", help="thresholds ascending, or free", choices=BETAS)
    theta_scale: float = option(1.0, help="factor of ability", gt=0)


@dataclass(frozen=True, kw_only=True)
class DeepGPCMConfig(ModelOptions):
    """A model for a vocabulary; its values are checked when the model is made."""

    questions: int = option(help="Q, without the unknown one", ge=0)
    categories: int = option(help="K", ge=2)


@dataclass(frozen=True, slots=True)
class ModelOutput:
    """Predictions of each step from the steps before it; arbitrary beyond a sequence's end."""

    logits_BSK: Float[Tensor, "*A K"]
    theta_BS: Float[Tensor, "*A"]
    alpha_BS: Float[Tensor, "*A"]
    beta_BSH: Float[Tensor, "*A H"]


@dataclass(frozen=True, slots=True)
class QuestionTables:
    """What depends on the question alone: attention, its part of the hidden state and of alpha, thresholds."""

    w_QN: Float[Tensor, "Q N"]
    hidden_QF: Float[Tensor, "Q F"]
    alpha_Q: Float[Tensor, " Q"]
    beta_QH: Float[Tensor, "Q H"]


class DeepGPCM(nn.Module):
    """The model. Question Q, one more than there are, is the unknown one; its key begins at 0, an average question."""

    def __init__(self, config: DeepGPCMConfig) -> None:
        super().__init__()
        check_type(config, DeepGPCMConfig, "give a gpcm.DeepGPCMConfig(questions=..., categories=...)")
        self.config = config = build(DeepGPCMConfig, asdict(config))
        Q, D, key = config.questions + 1, config.value_size, config.key_size
        mix_KC = embedding.mixing_weights(config.embedding, config.categories).to(torch.get_default_dtype())
        self.mix_KC: Tensor
        self.register_buffer("mix_KC", mix_KC, persistent=False)
        self.key = nn.Embedding(Q, key)
        self.query = nn.Linear(key, key)
        self.key_memory = nn.Parameter(torch.empty(config.slots, key))
        self.value_memory = nn.Parameter(torch.empty(config.slots, D))
        self.value = nn.Parameter(torch.empty(Q, mix_KC.shape[1], D))
        self.value_bias = nn.Parameter(torch.zeros(D))
        self.erase, self.add = nn.Linear(D, D), nn.Linear(D, D)
        self.summary = nn.Linear(D + key, config.hidden)
        self.heads = Heads(
            config.hidden,
            key,
            config.categories,
            scale=config.theta_scale,
            alpha=config.alpha,
            alpha_of=config.alpha_of,
            beta=config.beta,
        )
        for weight in (self.key.weight, self.key_memory, self.value_memory, self.value):
            nn.init.normal_(weight, std=(2 / weight.shape[-1]) ** 0.5)
        with torch.no_grad():
            self.key.weight[-1] = 0.0
            self.value[-1] = self.value[:-1].mean(0) if config.questions else 0.0

    def forward(
        self,
        question_BS: Int[Tensor, "B S"],
        response_BS: Int[Tensor, "B S"],
        length_B: Int[Tensor, " B"],
        seed_B: Int[Tensor, " B"] | None = None,
        *,
        engine: str = "auto",
    ) -> ModelOutput:
        """Predicts every step from those before it.

        Args:
            question_BS, response_BS, length_B: as `students.batch` gives them; what is beyond the length is ignored.
            seed_B: seeds of dropout, see `dropout.student_seeds`; random by default. Not used in evaluation.
            engine: how the memory is run, see `memory.run`.
        """
        if engine == "auto" and question_BS.device.type == "cpu" and length_B.any():
            return self._packed(question_BS, response_BS, length_B, seed_B)
        question_BS, response_BS, drop_BSF = self.prepare(question_BS, response_BS, length_B, seed_B)
        table_BS, tables = self._tables(question_BS)
        row_BS, e_RD, a_RD = self.answers(question_BS, response_BS)
        reads_BSD, _ = run(tables.w_QN, e_RD, a_RD, self.value_memory, table_BS, row_BS, length_B, engine=engine)
        return self.predict(reads_BSD, tables, table_BS, drop_BSF)

    def _packed(self, question_BS: Tensor, response_BS: Tensor, length_B: Tensor, seed_B: Tensor | None) -> ModelOutput:
        """The same, computed for real steps alone, and then put where they belong. For the CPU: elsewhere, to know how
        many there are is to wait for the device."""
        (B, S), config, drop_ZF = question_BS.shape, self.config, None
        place_Z = (torch.arange(S) < length_B[:, None]).flatten().nonzero()[:, 0]
        question_Z, response_Z = question_BS.flatten()[place_Z], response_BS.flatten()[place_Z]
        if self.training:
            seed_B = masks.random_seeds(B, question_BS.device) if seed_B is None else seed_B
            which = seed_B[place_Z // S], place_Z % S
            if config.unknown:
                unknown_Z = masks.mask_at(*which, 1, config.unknown, MADE_UNKNOWN)[:, 0]
                question_Z = torch.where(unknown_Z, config.questions, question_Z)
            if config.dropout:
                dropped_ZF = masks.mask_at(*which, config.hidden, config.dropout, DROPPED)
                drop_ZF = (~dropped_ZF).to(self.value_memory.dtype) / (1 - config.dropout)
        table_Z, tables = self._tables(question_Z)
        row_Z, e_RD, a_RD = self.answers(question_Z, response_Z)
        reads_ZD = run_packed(tables.w_QN, e_RD, a_RD, self.value_memory, table_Z, row_Z, length_B)
        output = self.predict(reads_ZD, tables, table_Z, drop_ZF)
        parts = (output.logits_BSK, output.theta_BS, output.alpha_BS, output.beta_BSH)
        padded = (part.new_zeros(B * S, *part.shape[1:]).index_copy(0, place_Z, part) for part in parts)
        return ModelOutput(*(part.unflatten(0, (B, S)) for part in padded))

    def prepare(
        self, question_BS: Tensor, response_BS: Tensor, length_B: Tensor, seed_B: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor | None]:
        """Zeros in place of padding, some questions made unknown, and what dropout multiplies by."""
        B, S = question_BS.shape
        real_BS = torch.arange(S, device=question_BS.device) < length_B[:, None]
        question_BS, response_BS = torch.where(real_BS, question_BS, 0), torch.where(real_BS, response_BS, 0)
        if not self.training:
            return question_BS, response_BS, None
        config = self.config
        seed_B = masks.random_seeds(B, question_BS.device) if seed_B is None else seed_B
        if config.unknown:
            unknown_BS = masks.random_mask(seed_B, S, 1, config.unknown, MADE_UNKNOWN)[:, :, 0]
            question_BS = torch.where(unknown_BS, config.questions, question_BS)
        if not config.dropout:
            return question_BS, response_BS, None
        dropped_BSF = masks.random_mask(seed_B, S, config.hidden, config.dropout, DROPPED)
        return question_BS, response_BS, (~dropped_BSF).to(self.value_memory.dtype) / (1 - config.dropout)

    def question_tables(self, question_Q: Int[Tensor, " Q"] | None = None) -> QuestionTables:
        """What depends on the question alone, for some questions or all."""
        key_Qk = self.key.weight if question_Q is None else self.key(question_Q)
        w_QN = torch.softmax(at_least_float32(torch.tanh(self.query(key_Qk)) @ self.key_memory.mT), dim=-1)
        D = self.config.value_size
        return QuestionTables(
            w_QN.to(self.value_memory.dtype),
            functional.linear(key_Qk, self.summary.weight[:, D:], self.summary.bias),
            self.heads.alpha_part(key_Qk),
            self.heads.beta(key_Qk),
        )

    def written(self, v_RD: Float[Tensor, "R D"]) -> tuple[Float[Tensor, "R D"], Float[Tensor, "R D"]]:
        """What answers erase and add, from their embeddings."""
        v_RD = v_RD + self.value_bias
        dtype = self.value_memory.dtype
        return torch.sigmoid(self.erase(v_RD)).to(dtype), torch.tanh(self.add(v_RD)).to(dtype)

    def predict(
        self,
        reads: Float[Tensor, "*A D"],
        tables: QuestionTables,
        row: Int[Tensor, "*A"],
        drop: Tensor | None = None,
    ) -> ModelOutput:
        """Predictions from what was read of the memory, and the questions' rows in the tables."""
        F = self.config.hidden
        # One gather for all that a question brings: its backward is the costly part.
        columns_QX = torch.cat([tables.hidden_QF, tables.alpha_Q[:, None], tables.beta_QH], dim=1)
        gathered_BSX = functional.embedding(row, columns_QX)
        read_part = functional.linear(reads, self.summary.weight[:, : self.config.value_size])
        f_BSF = torch.tanh(read_part + gathered_BSX[..., :F])
        f_BSF = f_BSF if drop is None else f_BSF * drop
        theta_BS = at_least_float32(self.heads.theta(f_BSF))
        alpha_BS = at_least_float32(self.heads.alpha(f_BSF, gathered_BSX[..., F]))
        beta_BSH = at_least_float32(gathered_BSX[..., F + 1 :])
        return ModelOutput(partial_credit.logits(theta_BS, alpha_BS, beta_BSH), theta_BS, alpha_BS, beta_BSH)

    def _tables(self, question_BS: Tensor) -> tuple[Tensor, QuestionTables]:
        """The rows of the batch's questions in the tables, and the tables."""
        if self.config.questions + 1 <= question_BS.numel():
            return question_BS, self.question_tables()
        used_Q, table_BS = torch.unique(question_BS, return_inverse=True)
        return table_BS, self.question_tables(used_Q)

    def answers(self, question_BS: Tensor, response_BS: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """The row of each step's answer in the tables of what answers erase and add, and these tables."""
        K = self.config.categories
        row_BS = question_BS * K + response_BS
        if (self.config.questions + 1) * K <= row_BS.numel():
            v_RD = embedding.all_rows(self.value, self.mix_KC)
        else:
            used_R, row_BS = torch.unique(row_BS, return_inverse=True)
            v_RD = embedding.some_rows(self.value, self.mix_KC, used_R)
        return row_BS, *self.written(v_RD)


def at_least_float32(x: Tensor) -> Tensor:
    """In float32 at least: under autocast, logits are differences of large numbers."""
    return x.float() if x.dtype in (torch.float16, torch.bfloat16) else x
