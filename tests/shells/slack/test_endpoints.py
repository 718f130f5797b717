"""The Slack app in the running application, with requests signed as Slack signs them."""

import json
import time
from queue import Empty
from typing import Any

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from service.app import create_app
from service.settings import Settings
from tests.databases import Databases, migrate_and_seed
from tests.shells.slack.signed import (
    CHANNEL,
    SLOW_S,
    TOKEN,
    FakeSlack,
    buttons,
    click,
    command_body,
    event_body,
    send,
    send_command,
    send_event,
    send_interaction,
    signature,
)

QUESTION = "llama-3.3-70b on 2x3090 at 16k"
FORM_TYPE = "application/x-www-form-urlencoded"


def answered(response: Any) -> dict[str, Any]:
    """What a command's response shows."""
    assert response.status_code == 200, response.text
    shown: dict[str, Any] = response.json()
    return shown


def button_of(shown: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The first button whose action starts so."""
    return next(button for button in buttons(shown["blocks"]) if button["action_id"].startswith(prefix))


def nothing_came(slack: FakeSlack) -> bool:
    """Whether nothing was sent to Slack for a while."""
    try:
        slack.received.get(timeout=1.0)
    except Empty:
        return True
    return False


def test_command_is_answered_in_its_response(client: TestClient) -> None:
    """A question about models of the catalogue needs no second request, is quick, and is seen by its asker alone."""
    send_command(client, QUESTION)
    started_s = time.monotonic()
    shown = answered(send_command(client, QUESTION))
    assert time.monotonic() - started_s < 3
    assert shown["response_type"] == "ephemeral"
    assert shown["blocks"][0]["text"]["text"].startswith("Fits: llama-3.3-70b Q4_K_M on 2")


def test_answer_has_the_numbers_of_the_api(client: TestClient) -> None:
    """Speed, command and largest context are those of POST /plan."""
    request = {"model": "llama-3.3-70b", "rig": {"gpus": ["2x 3090"]}, "workload": {"context_tokens": 16384}}
    plan = client.post("/plan", json=request).json()
    text = json.dumps(answered(send_command(client, QUESTION)), ensure_ascii=False)
    assert plan["command"]["text"] in text
    assert f"up to {plan['max_context_tokens']:,} fit" in text
    assert f"{plan['speed']['decode_tokens_per_s']['mid']:.3g}" in text


def test_page_button_opens_the_question(client: TestClient) -> None:
    """The address holds the whole question and lies where the service is reached."""
    address = button_of(answered(send_command(client, QUESTION)), "open")["url"]
    assert address.startswith("https://rigfit.example/?model=llama-3.3-70b&gpus=2x+rtx-3090&context_tokens=16384")
    assert client.get(address.removeprefix("https://rigfit.example")).status_code == 200


def test_context_button_asks_for_it(client: TestClient, slack: FakeSlack) -> None:
    """Another context replaces the answer that only its asker sees."""
    shown = answered(send_command(client, QUESTION))
    assert click(client, button_of(shown, "ask_context"), slack.response_url).status_code == 200
    path, content = slack.next()
    assert path.startswith("/response/")
    assert content["replace_original"] is True
    assert content["response_type"] == "ephemeral"
    assert "4,096 tokens" in content["blocks"][0]["text"]["text"]


def test_alternative_button_asks_for_it(client: TestClient, slack: FakeSlack) -> None:
    """What a runner-up does differently is asked for."""
    shown = answered(send_command(client, QUESTION))
    click(client, button_of(shown, "ask_other"), slack.response_url)
    assert slack.next()[1]["blocks"][0]["text"]["text"].split(":")[1].startswith(" llama-3.3-70b Q4_K_M")


def test_share_posts_in_the_channel(client: TestClient, slack: FakeSlack) -> None:
    """Everyone sees the answer and who shared it, without buttons that ask on."""
    shown = answered(send_command(client, QUESTION))
    click(client, button_of(shown, "share"), slack.response_url)
    content = slack.next()[1]
    assert content["response_type"] == "in_channel"
    assert "Shared by <@U0001>" in json.dumps(content)
    assert [button["action_id"] for button in buttons(content["blocks"])] == ["open"]


def test_page_button_is_acknowledged(client: TestClient, slack: FakeSlack) -> None:
    """Slack tells of links too; nothing else happens."""
    assert click(client, {"type": "button", "action_id": "open"}, slack.response_url).status_code == 200
    assert nothing_came(slack)


def test_button_of_another_release_is_refused_in_words(client: TestClient, slack: FakeSlack) -> None:
    """A question that cannot be asked any more is said to be none, to the one who pressed."""
    click(client, {"type": "button", "action_id": "share", "value": "model=x&gone=1"}, slack.response_url)
    assert "/gone" in json.dumps(slack.next()[1]["blocks"])


def test_typing_error_is_offered_corrected(client: TestClient, slack: FakeSlack) -> None:
    """Nothing is guessed: the close name is a button, and pressing it asks."""
    shown = answered(send_command(client, "lama-3.3-70b on 2x3090 at 16k"))
    correction = button_of(shown, "correct_0")
    assert correction["value"] == "llama-3.3-70b on 2x3090 at 16k"
    click(client, correction, slack.response_url)
    assert slack.next()[1]["blocks"][0]["text"]["text"].startswith("Fits: llama-3.3-70b")


def test_help_shows_questions(client: TestClient) -> None:
    """What can be asked is shown by examples."""
    assert "/rigfit llama-3.3-70b on 2x3090 at 32k" in json.dumps(answered(send_command(client, "help")))


def test_remote_model_is_refused_as_the_api_refuses_it(client: TestClient) -> None:
    """An address at a host that is not allowed is a problem with its title."""
    shown = answered(send_command(client, "https://models.example/x.gguf on 3090"))
    assert "Forbidden" in shown["blocks"][0]["text"]["text"]


def test_slow_model_is_answered_later(client: TestClient, slack: FakeSlack) -> None:
    """A host that takes its time does not keep Slack waiting: the answer follows at the response address."""
    started_s = time.monotonic()
    shown = answered(send_command(client, f"{slack.address}/slow.gguf on 3090", slack.response_url))
    assert time.monotonic() - started_s < 3
    assert "the answer follows" in shown["text"]
    path, content = slack.next()
    assert path.startswith("/response/")
    assert content["response_type"] == "ephemeral"
    assert "slow.gguf" in json.dumps(content["blocks"])


def test_slow_model_does_not_stop_others(client: TestClient, slack: FakeSlack) -> None:
    """While one question waits the service answers the next."""
    body = event_body(f"<@UBOT> {slack.address}/slow.gguf on 3090", "Ev7")
    assert send_event(client, body).status_code == 200
    started_s = time.monotonic()
    assert client.get("/healthz").status_code == 200
    assert "blocks" in answered(send_command(client, QUESTION))
    assert time.monotonic() - started_s < SLOW_S
    assert slack.next()[0] == "/api/chat.postMessage"


def test_mention_is_answered_in_its_thread(client: TestClient, slack: FakeSlack) -> None:
    """Everyone in the thread sees the answer; the bot's token is used."""
    body = event_body(f"<@UBOT> {QUESTION}", "Ev1", ts="5.6", thread_ts="3.4")
    assert send_event(client, body).status_code == 200
    path, content = slack.next()
    assert path == "/api/chat.postMessage"
    assert (content["channel"], content["thread_ts"]) == (CHANNEL, "3.4")
    assert content["authorization"] == f"Bearer {TOKEN}"
    assert "Fits: llama-3.3-70b" in json.dumps(content["blocks"])


def test_mention_outside_a_thread_starts_one(client: TestClient, slack: FakeSlack) -> None:
    """The answer hangs on the message that asked."""
    send_event(client, event_body(f"<@UBOT> {QUESTION}", "Ev2", ts="7.8"))
    assert slack.next()[1]["thread_ts"] == "7.8"


def test_bots_are_not_answered(client: TestClient, slack: FakeSlack) -> None:
    """Two bots never talk to each other."""
    assert send_event(client, event_body(f"<@UBOT> {QUESTION}", "Ev3", bot_id="B1")).status_code == 200
    assert nothing_came(slack)


def test_retries_are_answered_once(client: TestClient, slack: FakeSlack) -> None:
    """Slack sends an event again where it heard nothing; there is one answer."""
    body = event_body(f"<@UBOT> {QUESTION}", "Ev4")
    assert send_event(client, body).status_code == 200
    assert slack.next()[0] == "/api/chat.postMessage"
    for number in (1, 2, 3):
        headers = {"X-Slack-Retry-Num": str(number), "X-Slack-Retry-Reason": "http_timeout"}
        retried = send_event(client, body, headers, timestamp=int(time.time()) + number)
        assert retried.status_code == 200
    assert nothing_came(slack)


def test_retry_of_a_lost_event_is_answered(client: TestClient, slack: FakeSlack) -> None:
    """What no process ever saw is answered although it comes as a retry."""
    send_event(client, event_body(f"<@UBOT> {QUESTION}", "Ev5"), {"X-Slack-Retry-Num": "1"})
    assert slack.next()[0] == "/api/chat.postMessage"


def test_replay_is_not_answered_again(client: TestClient) -> None:
    """The same signed bytes once more, within the time they are valid, do nothing."""
    body, now = command_body(QUESTION, "http://127.0.0.1:9/none"), int(time.time())
    assert "blocks" in send(client, "/slack/commands", body, content_type=FORM_TYPE, timestamp=now).json()
    again = send(client, "/slack/commands", body, content_type=FORM_TYPE, timestamp=now)
    assert (again.status_code, again.text) == (200, "")


@pytest.mark.parametrize("age_s", [301, 3600, -301], ids=["old", "hours old", "of the future"])
def test_stale_requests_are_refused(client: TestClient, age_s: int) -> None:
    """A right signature of another time is none."""
    body = command_body(QUESTION, "http://127.0.0.1:9/none")
    stale = send(client, "/slack/commands", body, content_type=FORM_TYPE, timestamp=int(time.time()) - age_s)
    assert stale.status_code == 401


@pytest.mark.parametrize("path", ["/slack/commands", "/slack/events", "/slack/interactions"])
def test_wrong_signatures_are_refused(client: TestClient, path: str) -> None:
    """No secret, another secret, another body: nothing is answered at any of the addresses."""
    body, now = command_body(QUESTION, "http://127.0.0.1:9/none"), int(time.time())
    for signed in ("", "v0=00", signature(body, now, "another"), signature(body + "x", now)):
        refused = send(client, path, body, content_type=FORM_TYPE, timestamp=now, signed=signed)
        assert refused.status_code == 401
    assert client.post(path, content=body).status_code == 401


def test_refused_signature_does_not_stop_the_right_one(client: TestClient) -> None:
    """What was never accepted is not remembered as seen."""
    body, now = command_body(QUESTION, "http://127.0.0.1:9/none"), int(time.time())
    send(client, "/slack/commands", body, content_type=FORM_TYPE, timestamp=now, signed=signature(body, now, "x"))
    assert "blocks" in send(client, "/slack/commands", body, content_type=FORM_TYPE, timestamp=now).json()


def test_other_workspaces_are_refused(client: TestClient, slack: FakeSlack) -> None:
    """A right signature of another workspace, or of none, opens nothing."""
    assert send_command(client, QUESTION, team_id="T9999").status_code == 403
    body = json.loads(event_body(QUESTION, "Ev6")) | {"team_id": "T9999"}
    assert send_event(client, json.dumps(body)).status_code == 403
    action = {"type": "button", "action_id": "share", "value": "model=x"}
    for team in ({"id": "T9999"}, None):
        assert click(client, action, slack.response_url, team=team).status_code == 403
    assert nothing_came(slack)


def test_address_is_verified(client: TestClient) -> None:
    """Slack's question whether the address is ours is answered with its challenge."""
    body = json.dumps({"type": "url_verification", "challenge": "abc", "token": "t"})
    assert "abc" in send_event(client, body).text


def test_broken_bodies_are_refused(client: TestClient) -> None:
    """What is no text, no JSON or no object is refused, whatever it says it is."""
    for content in (b"\xff\xfe", b"{", b"[1]", b'"x"', b"null", b"{}", b"payload=%7B", b"payload=[1]", b"payload=1"):
        for content_type in ("application/json", FORM_TYPE, "text/plain", ""):
            refused = client.post("/slack/events", content=content, headers={"Content-Type": content_type})
            assert refused.status_code in {401, 422}, (content, content_type)


def test_form_is_opened(client: TestClient, slack: FakeSlack) -> None:
    """The command alone opens a form for a whole rig."""
    assert send_command(client, "").status_code == 200
    path, content = slack.next()
    assert path == "/api/views.open"
    view = content["view"] if isinstance(content["view"], dict) else json.loads(content["view"])
    assert view["private_metadata"] == CHANNEL
    assert [block["block_id"] for block in view["blocks"]][:3] == ["model", "cards", "context_tokens"]


def submission(values: dict[str, str]) -> dict[str, Any]:
    """A filled-in form."""
    state = {
        name: {name: {"type": "external_select", "selected_option": {"value": value}} if name == "model" else
               {"type": "plain_text_input", "value": value}}
        for name, value in values.items()
    }  # fmt: skip
    view = {"id": "V1", "type": "modal", "callback_id": "rigfit_form", "private_metadata": CHANNEL}
    return {"type": "view_submission", "view": {**view, "state": {"values": state}}}


def test_form_is_answered_in_its_place(client: TestClient) -> None:
    """A form's answer takes its place, and is that of the question it states."""
    filled = {"model": "llama-3.3-70b", "cards": "3090, 2x 4090", "context_tokens": "8192", "psu_w": "1600"}
    answer = send_interaction(client, submission(filled)).json()
    assert answer["response_action"] == "update"
    assert "8,192 tokens" in answer["view"]["blocks"][0]["text"]["text"]
    assert "psu_rated_w=1600" in json.dumps(answer["view"]["blocks"])


def test_words_beside_the_cards_of_a_form_count(client: TestClient) -> None:
    """What a line may say can be said beside the cards as well, and nothing of it is dropped."""
    filled = {"model": "llama-3.3-70b", "cards": "2x 3090, 280w each, kv q8", "engine": "llama.cpp"}
    text = json.dumps(send_interaction(client, submission(filled)).json()["view"])
    assert "cache_type_k=q8_0" in text
    assert "power_limit_w%22%3A280" in text


@pytest.mark.parametrize(
    ("filled", "field"),
    [
        ({"model": "llama-3.3-70b", "cards": "3091"}, "cards"),
        ({"model": "llama-3.3-70b", "cards": "3090", "parallel": "many"}, "parallel"),
        ({"model": "llama-3.3-70b", "cards": "3090", "parallel": "9999"}, "parallel"),
        ({"cards": "3090"}, "model"),
    ],
)
def test_wrong_fields_are_named(client: TestClient, filled: dict[str, str], field: str) -> None:
    """The form stays open and says beside the field what is wrong."""
    answer = send_interaction(client, submission(filled)).json()
    assert answer["response_action"] == "errors"
    assert list(answer["errors"]) == [field]


def test_buttons_of_a_form_work(client: TestClient, slack: FakeSlack) -> None:
    """Asking on changes the form; sharing posts into the channel where it was opened."""
    answer = send_interaction(client, submission({"model": "llama-3.3-70b", "cards": "2x3090"})).json()
    view = {"id": "V1", "private_metadata": CHANNEL}
    click(client, button_of(answer["view"], "ask_context"), slack.response_url, view=view)
    assert slack.next()[0] == "/api/views.update"
    click(client, button_of(answer["view"], "share"), slack.response_url, view=view)
    path, content = slack.next()
    assert (path, content["channel"]) == ("/api/chat.postMessage", CHANNEL)


def test_models_are_offered_while_typing(client: TestClient) -> None:
    """The form lists models by the words of their names."""
    asked = {"type": "block_suggestion", "action_id": "model", "block_id": "model", "value": "llama 70b"}
    options = send_interaction(client, asked).json()["options"]
    assert "llama-3.3-70b" in [option["value"] for option in options]


def test_settings_belong_together() -> None:
    """A secret without a token and a workspace stops the process before it serves."""
    with pytest.raises(ValidationError, match="together"):
        Settings(slack_team_id="T1")


def test_nothing_is_mounted_without_settings(sqlite: Databases) -> None:
    """An installation without Slack has no such addresses."""
    with TestClient(create_app(Settings(database_url=sqlite.copy_of("seeded", migrate_and_seed)))) as plain:
        assert send_command(plain, QUESTION).status_code == 404
