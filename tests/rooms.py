"""Owns which tests stand for which package: `make test-room ROOM=store` runs those of the short tier, in a minute.

Prints the paths of one room for pytest: `python -m tests.rooms store`. A file may stand for several packages.
Must not know   the tiers, how tests are run.
"""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent

ROOMS = {
    "admin": "unit/admin integration/test_admin*.py integration/test_cli_*.py integration/test_message_life.py"
    " integration/test_takeover*.py",
    "auth": "unit/auth integration/test_access_control*.py integration/test_how_to_access_control.py"
    " integration/test_certificate_users.py"
    " integration/test_audit_topic.py"
    " parity/test_keyed_sha1.py parity/test_signed_frames.py interop/test_access_control.py"
    " integration/test_gate.py integration/test_strangers.py"
    " integration/test_slaves_prove_themselves.py",
    "base": "unit/base parity/test_java_compat.py parity/test_checksum.py parity/test_every_twin.py"
    " integration/test_faults_in_duties.py integration/test_loop_disk.py integration/test_stalled_disk.py",
    "broker": "unit/broker scenarios property/test_producer_sequences.py property/test_table_copies.py"
    " parity/test_plain_pulls.py parity/test_plain_requests.py parity/test_plain_sends.py parity/test_marked_batches.py"
    " parity/test_due_runs.py parity/test_entry_runs.py parity/test_lite_runs.py"
    " parity/test_plain_acks.py parity/test_plain_pops.py parity/test_plain_ends.py"
    " integration/test_bad_*.py integration/test_before_registration.py integration/test_broker_*.py"
    " integration/test_cold_reads.py integration/test_failing_masters.py"
    " integration/test_cost_of_requests.py integration/test_disowned.py integration/test_metrics*.py"
    " integration/test_fair_shares.py integration/test_quotas.py integration/test_client_ids.py"
    " golden/test_metrics.py"
    " integration/test_faults_in_duties.py integration/test_gate.py integration/test_large_batches.py"
    " integration/test_lite_*.py"
    " integration/test_lost_register.py integration/test_memory_bounds.py integration/test_poison.py"
    " integration/test_pop*.py integration/test_property_room.py"
    " integration/test_reads_over_a_switch.py integration/test_replica_*.py integration/test_slave_reads.py"
    " integration/test_apaches_exporter.py integration/test_stalled_disk.py integration/test_strangers.py"
    " integration/test_strict_locks.py"
    " integration/test_succession.py integration/test_table_copies.py"
    " integration/test_takeover*.py integration/test_under_apaches_controller.py integration/test_unfit_heirs.py"
    " simulation/test_switch.py simulation/test_transaction_histories.py simulation/test_real_groups.py"
    " histories/test_pop*.py",
    "cli": "unit/cli unit/install integration/test_cli_*.py integration/test_how_to*.py integration/test_packages.py"
    " integration/test_lost_register.py integration/test_supervisor.py integration/test_run_brokers.py"
    " integration/test_message_life.py",
    "client": "unit/client integration/test_client_*.py integration/test_first_positions.py integration/test_how_to.py"
    " integration/test_any_delay.py integration/test_bad_input.py integration/test_dead_letters.py"
    " integration/test_pitfalls.py integration/test_payload.py integration/test_transfer.py"
    " simulation/test_switch.py simulation/test_requests.py simulation/test_key_order.py"
    " integration/test_message_life.py golden/test_trace.py parity/test_batch_body.py parity/test_gathering.py"
    " parity/test_message_check.py interop/test_lite_groups_on_apache.py",
    "codec": "unit/codec property/test_codec_properties.py golden/test_records.py parity/test_checksum.py"
    " parity/test_column_batch.py parity/test_name_set.py parity/test_property_text.py parity/test_record*.py",
    "controller": "unit/controller scenarios/test_controllers.py histories/test_etcd.py"
    " integration/test_namesrv_controller.py integration/test_etcd_register.py simulation/test_replica_*.py",
    "filter": "unit/filter property/test_sql92.py property/test_sql92_arrow.py golden/test_sql92.py"
    " integration/test_sql92.py parity/test_sql_*.py",
    "model": "unit/model parity/test_message.py property/test_codec_properties.py",
    "namesrv": "unit/namesrv scenarios/test_route_table.py golden/test_namesrv_frames.py"
    " integration/test_broker_registration.py integration/test_namesrv_*.py",
    "net": "unit/net integration/test_net_*.py integration/test_gate.py integration/test_strangers.py"
    " integration/test_cost_of_requests.py integration/test_metrics*.py integration/test_tls*.py"
    " integration/test_how_to_tls.py",
    "protocol": "unit/protocol property/test_protocol_properties.py golden/test_frames.py golden/test_namesrv_frames.py"
    " parity/test_command.py parity/test_frame.py parity/test_header_binary.py parity/test_plain_requests.py",
    "proxy": "unit/proxy property/test_proxy_*.py parity/test_grpc_*.py integration/test_grpc_*.py"
    " interop/test_grpc_*.py interop/test_lite_topics.py",
    "replication": "unit/replication property/test_epoch_history.py property/test_sync_state_set.py"
    " golden/test_auto_switch.py golden/test_classic.py integration/test_bad_*.py integration/test_epoch_stream.py"
    " integration/test_follower.py integration/test_log_cut.py integration/test_log_stream.py"
    " simulation/test_epoch_group.py simulation/test_replica_rules.py",
    "spark": "unit/spark unit/demo property/test_sql92_arrow.py parity/test_column_batch.py"
    " parity/test_record_columns.py integration/test_pipeline_topics.py integration/test_replay.py"
    " integration/test_sink_on_a_cluster.py integration/test_exactly_once_sink.py histories/test_sink*.py",
    "standalone": "integration/test_standalone.py integration/test_embedded_cluster.py",
    "store": "unit/store unit/bench property/test_consume_queue.py property/test_dispatch_scan.py"
    " property/test_key_index.py property/test_store_*.py golden/test_broker_on_apache_store.py"
    " golden/test_dledger_store.py golden/test_store_*.py histories/test_store.py histories/test_timers.py"
    " integration/test_store_real_files.py"
    " integration/test_stalled_disk.py integration/test_log_cut.py parity/test_chains.py parity/test_dispatch_scan.py"
    " parity/test_entry.py parity/test_fetch.py parity/test_known_records.py parity/test_plain_fetch.py"
    " parity/test_raw_run.py parity/test_selection.py parity/test_tail.py parity/test_unit_run.py",
    "testing": "simulation/test_seeds.py integration/test_embedded_cluster.py",
}


def paths(room: str) -> list[Path]:
    """The folders and files of a room; an entry that names nothing is an error."""
    found = []
    for entry in ROOMS[room].split():
        named = sorted(TESTS.glob(entry))
        assert named, f"room {room}: there is no tests/{entry}"
        found += named
    return found


def main(words: list[str]) -> str:
    """The words for pytest."""
    if len(words) != 1 or words[0] not in ROOMS:
        raise SystemExit(f"name one room: make test-room ROOM=store. There are {', '.join(ROOMS)}")
    return " ".join(str(path.relative_to(TESTS.parent)) for path in paths(words[0]))


if __name__ == "__main__":
    print(main(sys.argv[1:]))
