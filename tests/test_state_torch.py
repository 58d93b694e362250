"""States of torch: what comes back as it was, and what is refused by its name."""

import warnings

import pytest

torch = pytest.importorskip("torch")


def test_lazy_conjugates_and_negatives_are_filled(there_and_back):
    values = torch.randn(3, 4, dtype=torch.complex64)
    state = {"conj": values.conj(), "neg": torch.randn(3, dtype=torch.complex64).conj().imag}
    into = {
        "conj": torch.zeros(3, 4, dtype=torch.complex64).conj(),
        "neg": torch.zeros(3, dtype=torch.complex64).conj().imag,
    }
    assert into["conj"].is_conj()
    assert into["neg"].is_neg()
    for back in (there_and_back(state), there_and_back(state, into)):
        assert torch.equal(back["conj"], state["conj"])
        assert torch.equal(back["neg"], state["neg"])
    there_and_back({"a": values}, {"a": into["conj"]})
    assert torch.equal(into["conj"], values)


def test_a_conjugate_beside_what_it_is_a_view_of_is_refused(refusal):
    values = torch.randn(3, dtype=torch.complex64)
    assert "tensor.resolve_conj()" in refusal({"a": values, "b": values.conj()})


def test_strides_and_ties_come_back(there_and_back):
    w = torch.randn(6, 4)
    state = {
        "images": torch.randn(2, 3, 5, 7).contiguous(memory_format=torch.channels_last),
        "w": w,
        "flat": w.view(-1),
        "turned": w.T,
        "part": w[1:3],
        "bits": w.view(torch.int32)[2:],
        "column": w[:, 1],
    }
    back = there_and_back(state)
    for name, tensor in state.items():
        assert torch.equal(back[name], tensor), name
        assert back[name].stride() == tensor.stride(), name
    assert back["images"].is_contiguous(memory_format=torch.channels_last)
    back["w"].zero_()
    for name in set(state) - {"images"}:
        assert not back[name].any(), name
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    there_and_back(state, into)
    for name, tensor in state.items():
        assert torch.equal(into[name], tensor), name
    mine = torch.zeros(6, 4)
    into = {"w": mine, "flat": mine.view(-1), "turned": mine.T, "part": mine[1:3]}
    into |= {"bits": mine.view(torch.int32)[2:], "column": mine[:, 1]}
    there_and_back({name: state[name] for name in into}, into)
    assert torch.equal(mine, w)


def test_numpy_and_torch_over_the_same_memory_share_it_again(there_and_back):
    tensor = torch.arange(8.0)
    back = there_and_back({"t": tensor, "n": tensor.numpy()[2:5]})
    back["n"][:] = -1
    assert back["t"].tolist() == [0, 1, -1, -1, -1, 5, 6, 7]


def test_modules_and_optimizers_come_back_as_they_were(there_and_back):
    def made():
        torch.manual_seed(0)
        layers = torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 4, bias=False)
        model = torch.nn.Sequential(*layers)
        model[2].weight = torch.nn.Parameter(model[0].weight.T)  # tied, transposed
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
        steps = torch.optim.lr_scheduler.MultiStepLR(optimizer, [2, 4])
        return model, optimizer, steps

    model, optimizer, steps = made()
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 4)).square().sum().backward()
        optimizer.step()
        steps.step()
    parts = {"model": model, "optimizer": optimizer, "steps": steps}
    state = {name: part.state_dict() for name, part in parts.items()}
    again = dict(zip(parts, made(), strict=True))
    into = {name: part.state_dict() for name, part in again.items()}
    for back in (there_and_back(state), there_and_back(state, into)):
        assert back["model"]._metadata == state["model"]._metadata
        assert type(back["steps"]["milestones"]) is type(state["steps"]["milestones"])
        for name, part in again.items():
            part.load_state_dict(back[name])
        assert str(again["optimizer"].state_dict()) == str(optimizer.state_dict())
        for name, tensor in model.state_dict().items():
            assert torch.equal(again["model"].state_dict()[name], tensor), name


def test_parameters_and_gradients_that_are_asked_for_come_back(there_and_back):
    parameter = torch.nn.Parameter(torch.randn(3))
    state = {
        "p": parameter,
        "again": parameter,
        "frozen": torch.nn.Parameter(torch.ones(2), requires_grad=False),
        "leaf": torch.ones(2, requires_grad=True),
        "plain": torch.ones(2),
    }
    back = there_and_back(state)
    for name, tensor in state.items():
        assert type(back[name]) is type(tensor), name
        assert back[name].requires_grad == tensor.requires_grad, name
        assert torch.equal(back[name], tensor)
    assert back["p"] is back["again"]
    into = {name: torch.zeros_like(tensor) for name, tensor in state.items()}
    into["again"] = into["p"] = torch.nn.Parameter(torch.zeros(3))
    there_and_back(state, into)
    assert torch.equal(into["p"], parameter)


@pytest.mark.parametrize(
    "dtype", ["bfloat16", "float16", "float8_e4m3fn", "bool", "complex128", "uint16"]
)
def test_dtypes_come_back(there_and_back, dtype):
    raw = torch.randint(0, 2, (64,), dtype=torch.uint8)
    tensor = raw.view(getattr(torch, dtype))
    back = there_and_back([tensor, tensor[:0], tensor[0].clone()])
    assert [(x.dtype, x.shape) for x in back] == [
        (tensor.dtype, s) for s in (tensor.shape, (0,), ())
    ]
    assert torch.equal(back[0].view(torch.uint8), raw)


def strange():
    """Tensors that have no plain memory, or would come back as others, and what to do."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        plain = torch.randn(4, 4)

        class Wrapper(torch.Tensor):
            @staticmethod
            def __new__(cls):
                return torch.Tensor._make_wrapper_subclass(cls, (2, 2))

            __torch_dispatch__ = classmethod(lambda cls, *_: pytest.fail("it was asked"))

        from torch._subclasses.fake_tensor import FakeTensorMode

        with FakeTensorMode():
            fake = torch.zeros(3)
        parts = [torch.ones(2), torch.ones(3)]
        yield "fake", fake, "FakeTensorMode"
        yield "wrapper", Wrapper(), "plain tensors"
        yield "subclass", plain.as_subclass(type("Mine", (torch.Tensor,), {})), "plain tensors"
        yield "meta", plain.to("meta"), "to_empty"
        yield "coo", plain.to_sparse(), "to_dense()"
        yield "csr", plain.to_sparse_csr(), "to_dense()"
        yield "nested", torch.nested.nested_tensor(parts), "unbind()"
        yield "jagged", torch.nested.nested_tensor(parts, layout=torch.jagged), "unbind()"
        yield "quantized", torch.quantize_per_tensor(plain, 0.1, 0, torch.qint8), "int_repr()"
        yield "uninitialized", torch.nn.parameter.UninitializedParameter(), "run the model"
        yield "dtype", torch.float32, "a state holds"
        yield "size", plain.shape, "tuple(x)"


@pytest.mark.parametrize(
    ("tensor", "hint"), [x[1:] for x in strange()], ids=[x[0] for x in strange()]
)
def test_what_has_no_plain_memory_is_refused_by_name(refusal, tensor, hint):
    found = refusal({"model": [tensor]})
    assert found.startswith("state['model'][0] is a")
    assert hint in found
    if isinstance(tensor, torch.Tensor):
        assert "state['a']" in refusal({"a": torch.zeros(4, 4)}, {"a": tensor})


def test_a_tensor_of_several_ranks_is_refused_by_name(refusal, tmp_path):
    import torch.distributed as dist
    from torch.distributed.tensor import distribute_tensor, init_device_mesh

    dist.init_process_group("gloo", init_method=f"file://{tmp_path / 'meet'}", rank=0, world_size=1)
    try:
        part = distribute_tensor(torch.ones(4), init_device_mesh("cpu", (1,)))
        found = refusal({"w": part})
        assert "state['w'] is a torch.distributed.tensor.DTensor" in found
        assert "to_local()" in found
    finally:
        dist.destroy_process_group()


def test_the_default_device_changes_nothing(there_and_back):
    tensor = torch.randn(5)
    state = {"w": tensor, "part": tensor[1:3]}
    torch.set_default_device("meta")
    try:
        back = there_and_back(state)
    finally:
        torch.set_default_device(None)
    assert torch.equal(back["w"], tensor)
    assert torch.equal(back["part"], tensor[1:3])


def test_a_tensor_under_a_transform_is_refused_by_name(refusal):
    def act(x):
        assert "state['x']" in refusal({"x": x})
        return x

    torch.vmap(act)(torch.randn(3, 2))
