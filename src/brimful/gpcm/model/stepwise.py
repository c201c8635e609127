"""The model step by step, as it is defined: slow, readable, and the reference for `deep_gpcm.py`.

Legend: B students, S steps, Q questions and the unknown one, C components, N slots, D value size, d_k key size.

Every step computes the response embedding, the attention, the read, the heads and the write by itself.
The parameters are those of a `DeepGPCM`.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from . import partial_credit
from .deep_gpcm import DeepGPCM, ModelOutput


def baseline(
    model: DeepGPCM,
    question_BS: Int[Tensor, "B S"],
    response_BS: Int[Tensor, "B S"],
    length_B: Int[Tensor, " B"],
    seed_B: Int[Tensor, " B"] | None = None,
) -> ModelOutput:
    """What `model(...)` gives, computed step by step."""
    question_BS, response_BS, drop_BSF = model.prepare(question_BS, response_BS, length_B, seed_B)
    M_BND = model.value_memory.expand(len(question_BS), -1, -1)
    empty_B0, empty_B0H = M_BND.new_zeros(len(M_BND), 0), M_BND.new_zeros(len(M_BND), 0, model.config.categories - 1)
    thetas, alphas, betas = [empty_B0], [empty_B0], [empty_B0H]
    for step in range(question_BS.shape[1]):
        k_Bk = model.key(question_BS[:, step])
        w_BN = torch.softmax(torch.tanh(model.query(k_Bk)) @ model.key_memory.mT, dim=1)
        read_BD = torch.einsum("bn,bnd->bd", w_BN, M_BND)
        f_BF = torch.tanh(model.summary(torch.cat([read_BD, k_Bk], dim=1)))
        if drop_BSF is not None:
            f_BF = f_BF * drop_BSF[:, step]
        thetas.append(model.heads.theta(f_BF)[:, None])
        alphas.append(model.heads.alpha(f_BF, model.heads.alpha_part(k_Bk))[:, None])
        betas.append(model.heads.beta(k_Bk)[:, None])
        x_BX = one_hot(model, question_BS[:, step], response_BS[:, step])
        v_BD = x_BX @ model.value.flatten(0, 1) + model.value_bias
        e_BD, a_BD = torch.sigmoid(model.erase(v_BD)), torch.tanh(model.add(v_BD))
        M_BND = M_BND * (1 - w_BN[:, :, None] * e_BD[:, None, :]) + w_BN[:, :, None] * a_BD[:, None, :]
    theta_BS, alpha_BS, beta_BSH = (torch.cat(steps, dim=1) for steps in (thetas, alphas, betas))
    return ModelOutput(partial_credit.logits(theta_BS, alpha_BS, beta_BSH), theta_BS, alpha_BS, beta_BSH)


def one_hot(model: DeepGPCM, question_B: Int[Tensor, " B"], response_B: Int[Tensor, " B"]) -> Float[Tensor, "B X"]:
    """The response embedding by its definition: C numbers at the question's place, zeros for all others."""
    hot_BQ = torch.nn.functional.one_hot(question_B, model.config.questions + 1).to(model.mix_KC.dtype)
    return (hot_BQ[:, :, None] * model.mix_KC[response_B][:, None, :]).flatten(1)
