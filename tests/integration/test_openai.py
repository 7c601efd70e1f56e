"""The official openai client, as a user would call it."""
import openai
import pytest


@pytest.fixture
def client(daemon):
    with openai.OpenAI(base_url=f"http://{daemon.http}/v1", api_key="none", max_retries=0) as made:
        yield made


@pytest.fixture
def real_client(real_daemon):
    with openai.OpenAI(base_url=f"http://{real_daemon.http}/v1", api_key="none", max_retries=0) as made:
        yield made


def test_knows_a_capital(real_client):
    answer = real_client.completions.create(model="smollm2", prompt="The capital of France is", max_tokens=2,
                                            temperature=0)
    assert answer.choices[0].text.strip().startswith("Paris")
    assert answer.usage.prompt_tokens == 5 and answer.usage.completion_tokens == 2


def test_chats_through_the_models_template(real_client):
    messages = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
    whole = real_client.chat.completions.create(model="smollm2", messages=messages, temperature=0, max_tokens=20)
    assert "Paris" in whole.choices[0].message.content
    stream = real_client.chat.completions.create(model="smollm2", messages=messages, temperature=0, max_tokens=20,
                                                 stream=True, stream_options={"include_usage": True})
    text, usage, reasons, ids = "", None, [], set()
    for chunk in stream:
        ids.add(chunk.id)
        if chunk.usage:
            usage = chunk.usage
        for choice in chunk.choices:
            text += choice.delta.content or ""
            if choice.finish_reason:
                reasons.append(choice.finish_reason)
    assert text == whole.choices[0].message.content
    assert len(ids) == 1
    assert usage.completion_tokens == whole.usage.completion_tokens
    assert reasons == [whole.choices[0].finish_reason]


def test_user_text_makes_no_control_tokens(real_daemon, real_client):
    """<|im_end|> in a user's message must stay text: the prompt is longer than with the control token."""
    def prompt_tokens(content):
        return real_client.chat.completions.create(
            model="smollm2", messages=[{"role": "user", "content": content}], max_tokens=1).usage.prompt_tokens

    assert prompt_tokens("a<|im_end|>b") >= prompt_tokens("ab") + 4


def test_streamed_equals_collected(client):
    arguments = dict(model="tiny", prompt="Some words to begin with", max_tokens=40, temperature=0.9, seed=11)
    whole = client.completions.create(**arguments)
    streamed = "".join(chunk.choices[0].text for chunk in client.completions.create(**arguments, stream=True)
                       if chunk.choices)
    assert streamed == whole.choices[0].text


def test_stop_string_is_cut_in_both_modes(client):
    arguments = dict(model="tiny", prompt="abc", max_tokens=60, temperature=0, extra_body={"ignore_eos": True})
    free = client.completions.create(**arguments).choices[0].text
    stop = free[len(free) // 2:len(free) // 2 + 3]
    cut = client.completions.create(**arguments, stop=[stop]).choices[0]
    assert cut.text == free[:free.index(stop)]
    assert cut.finish_reason == "stop"
    streamed = "".join(c.choices[0].text for c in client.completions.create(**arguments, stop=[stop], stream=True)
                       if c.choices)
    assert streamed == cut.text


def test_logprobs_choices_and_token_ids(client):
    answer = client.completions.create(model="tiny", prompt=[1, 2, 3], max_tokens=5, temperature=0, logprobs=3, n=2,
                                       extra_body={"return_token_ids": True, "ignore_eos": True})
    assert [choice.index for choice in answer.choices] == [0, 1]
    for choice in answer.choices:
        assert len(choice.logprobs.token_logprobs) == 5
        assert len(choice.model_dump()["token_ids"]) == 5
        for chosen, top in zip(choice.logprobs.token_logprobs, choice.logprobs.top_logprobs):
            # Greedy picks the best.
            assert chosen == pytest.approx(max(top.values()), abs=1e-5)
    assert answer.choices[0].text == answer.choices[1].text
    assert answer.usage.completion_tokens == 10


def test_logit_bias_decides(client):
    answer = client.completions.create(model="tiny", prompt="x", max_tokens=3, temperature=0, logit_bias={"77": 100},
                                       extra_body={"return_token_ids": True, "ignore_eos": True})
    assert answer.choices[0].model_dump()["token_ids"] == [77, 77, 77]


@pytest.mark.parametrize("arguments, param", [
    (dict(max_tokens=-1), "max_tokens"),
    (dict(temperature=-0.5), "temperature"),
    (dict(top_p=1.5), "top_p"),
    (dict(n=0), "n"),
    (dict(extra_body={"max_tokens": 3.7}), "max_tokens"),
    (dict(extra_body={"max_tokens": "5"}), "max_tokens"),
    (dict(extra_body={"max_tokens": True}), "max_tokens"),
    (dict(extra_body={"max_tokens": 2**63}), "max_tokens"),
    (dict(extra_body={"max_tokens": 1e308}), "max_tokens"),
    (dict(extra_body={"top_k": -3}), "top_k"),
    (dict(suffix="x"), "suffix"),
    (dict(extra_body={"response_format": {"type": "json_object"}}), "response_format"),
    (dict(prompt=[]), "prompt"),
    (dict(prompt=[10**7]), "prompt"),
    (dict(prompt="word " * 20000), "prompt"),
])
def test_bad_requests_name_the_field(daemon, client, arguments, param):
    with pytest.raises(openai.BadRequestError) as error:
        client.completions.create(**{"model": "tiny", "prompt": "x", **arguments})
    body = error.value.body
    assert body["message"] and param in (body.get("param") or "") + body["message"]
    daemon.wait_idle()


def test_an_empty_prompt_is_the_start_token_or_a_400(client, real_client):
    """A model that puts a start token in front can begin from it alone; one that does not has nothing to begin from."""
    assert client.completions.create(model="tiny", prompt="", max_tokens=1).usage.prompt_tokens == 1
    with pytest.raises(openai.BadRequestError) as error:
        real_client.completions.create(model="smollm2", prompt="", max_tokens=1)
    assert "prompt" in error.value.body["message"]


def test_unknown_model_and_template_errors(client):
    with pytest.raises(openai.NotFoundError) as error:
        client.completions.create(model="nope", prompt="x")
    assert "nope" in error.value.body["message"] and "tiny" in error.value.body["message"]
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages=[])
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model="tiny", messages=[{"role": "user"}, "x"])


def test_lists_models(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_closing_a_stream_stops_the_work(daemon, client):
    stream = client.completions.create(model="tiny", prompt="x", max_tokens=400, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    daemon.wait_idle()
