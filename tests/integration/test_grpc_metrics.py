"""The pages of a proxy in a process of its own: connections, calls by method and outcome, bytes, readiness."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rocketlake.admin import Admin
from rocketlake.proxy.alone import ProxyAlone
from rocketlake.proxy.config import load_proxy_conf
from rocketlake.proxy.v2 import messages as v2
from rocketlake.standalone import Standalone
from tests.grpc_client import client_of, until
from tests.integration.scraped import get, scrape


async def test_a_proxy_tells_its_figures_and_whether_clients_may_come(tmp_path: Path) -> None:
    async with Standalone(tmp_path) as cluster, Admin(namesrv=cluster.namesrv_address) as admin:
        await admin.create_topic("T", queues=1)
        await admin.create_topic("Empty", queues=1)
        settings = {
            "grpcServerPort": 0,
            "namesrvAddr": cluster.namesrv_address,
            "metricsExporterType": "PROM",
            "metricsPromExporterPort": 0,
        }
        async with ProxyAlone(load_proxy_conf(None, settings)) as server:
            page = server.monitor.address
            assert json.loads((await get(page, "/ready")).body) == {"ready": True, "reasons": []}
            assert (await get(page, "/health")).status == 200
            async with client_of(server.proxy) as client:
                assert (await client.send("T", b"one")).status.code == v2.Code.OK
                assert (await client.send("T", b"two")).status.code == v2.Code.OK
                assert (await client.send("None", b"x")).status.code == v2.Code.TOPIC_NOT_FOUND
                stream = await client.begin("ReceiveMessage", client.receiving("Empty", "other"))
                await until(lambda: any(link.calls for link in server.proxy.server.links))
                found = await scrape(page)
                assert found.value("rocketlake_proxy_connections", node_type="proxy") == 1
                assert found.value("rocketlake_proxy_open_calls") >= 1
                client.peer.h2.reset_stream(stream)
                await client.peer.flush()
                await until(lambda: not any(link.calls for link in server.proxy.server.links))
            found = await scrape(page)
            calls = "rocketlake_proxy_calls_total"
            assert found.value(calls, method="SendMessage", outcome="ok") == 2
            assert found.value(calls, method="SendMessage", outcome="topic_not_found") == 1
            assert found.value(calls, method="ReceiveMessage", outcome="cancelled") == 1
            assert found.value("rocketlake_proxy_connections_total") == 1
            assert found.value("rocketlake_proxy_received_bytes_total") > 300
            assert found.value("rocketlake_proxy_sent_bytes_total") > 100
            assert found.value("rocketmq_proxy_up", proxy_mode="cluster") == 1
            server.proxy.server.draining = True
            assert (await get(page, "/ready")).status == 503


async def test_without_the_setting_no_page_is_served(tmp_path: Path) -> None:
    async with ProxyAlone(load_proxy_conf(None, {"grpcServerPort": 0, "namesrvAddr": "127.0.0.1:1"})) as server:
        assert server.monitor.address == ""
        assert server.address.startswith("127.0.0.1:")


async def test_a_start_in_front_of_no_name_server_says_so(caplog: pytest.LogCaptureFixture) -> None:
    async with ProxyAlone(load_proxy_conf(None, {"grpcServerPort": 0, "namesrvAddr": "127.0.0.1:1"})):
        await until(lambda: "clients get no new routes: no name server answers" in caplog.text)


async def test_a_proxy_that_the_name_server_does_not_know_names_its_setting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with Standalone(tmp_path, settings={"authenticationEnabled": "true"}) as cluster:
        given = {"grpcServerPort": 0, "namesrvAddr": cluster.namesrv_address}
        async with ProxyAlone(load_proxy_conf(None, given)):
            await until(lambda: "clients get no new routes" in caplog.text)
    assert (
        "only signed requests. Cure: give the proxy a super user by innerClientAuthenticationCredentials" in caplog.text
    )
