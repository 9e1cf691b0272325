"""Owns one call of each command of Apache's mqadmin 5.5.0, and a text of its answer on our cluster.

docs/reference/mqadmin.md says of each command whether it works, differs or is refused; tests run these calls.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["IN_GROUPS", "ON_ONE_BROKER", "PAGE", "WITH_USERS", "Call"]

PAGE = "docs/reference/mqadmin.md"


@dataclass(frozen=True)
class Call:
    """Words of a command; {names} stand for addresses and ids of the cluster that is asked.

    `answer`: a part of what is printed. `same`: Apache's broker of 5.5.0 prints the same, but for times, ids and rates.
    `is_refused`: the command works, but not in this case, by Apache's own rule.
    """

    words: str
    answer: str
    same: bool = True
    names_servers: bool = True
    is_refused: bool = False

    @property
    def command(self) -> str:
        """The name of the command."""
        return self.words.split()[0]


_C = "-c DefaultCluster"
_B = "-b {broker}"
_NO_CODE = "request type {} not supported"

ON_ONE_BROKER = (
    Call(f"updateTopic {_C} -t Made -r 4 -w 4", "create topic to"),
    Call(f"updateTopic {_C} -t Ordered -r 2 -w 2 -o true", "orderConf=[broker-a:2]"),
    Call(f"updateTopicList {_C} -f {{home}}/topics.json", "submit batch of topic config"),
    Call(f"updateSubGroup {_C} -g made", "retryMaxTimes=16"),
    Call(f"updateSubGroup {_C} -g cloned", "groupName=cloned"),
    Call(f"updateSubGroupList {_C} -f {{home}}/groups.json", "submit batch of subscription group config"),
    Call(f"setConsumeMode {_C} -t Orders -g made -m PULL", "consume mode[PULL]"),
    Call(f"updateBrokerConfig {_B} -k autoCreateTopicEnable -v true", "update broker config success"),
    Call(f"updateTopicPerm {_C} -t Made -p 4", "update topic perm from 6 to 4"),
    Call("topicRoute -t Orders -l", "DefaultCluster"),
    Call("topicStatus -t Orders", "Topic Put TPS"),
    Call("topicClusterList -t Orders", "DefaultCluster"),
    Call("addBroker -c {broker} -b /tmp/none.conf", _NO_CODE.format(902)),
    Call("removeBroker -c {broker} -b DefaultCluster:broker-a:0", _NO_CODE.format(903)),
    Call(f"resetMasterFlushOffset {_B} -o 0", _NO_CODE.format(908), same=False),
    Call(f"brokerStatus {_B}", "putMessageDistributeTime", same=False),
    Call("queryMsgById -t Orders -i {offset_id}", "[consumerGroup=live, trackType=CONSUMED"),
    Call("queryMsgByKey -t Orders -k k7", "#IndexKey"),
    Call("queryMsgByUniqueKey -t Orders -i {id}", "[consumerGroup=live, trackType=CONSUMED"),
    Call("queryMsgByOffset -t Orders -b broker-a -i 0 -o 0", "Queue Offset:        0"),
    Call("queryMsgTraceById -i {id}", "success"),
    Call("printMsg -t Orders", "BODY: 19"),
    Call("printMsgByQueue -t Orders -a broker-a -i 0 -p true -f true", "Count: 5"),
    Call("queryCq -t Orders -q 0 -i 0 -c 3 -b {broker}", "ConsumeQueueData{physicOffset="),
    Call("sendMsgStatus -b broker-a -s 64 -c 3", "sendStatus=SEND_OK", same=False),
    Call(f"brokerConsumeStats {_B}", "Diff Total: 0"),
    Call("producerConnection -g shop -t Orders", "PYTHON"),
    Call("consumerConnection -g live", "ConsumeType: CONSUME_PASSIVELY"),
    Call("consumerProgress -g live -s true", "Diff Total: 0"),
    Call("consumerProgress", "live", same=False),
    Call("consumerStatus -g live", "#ConsumerRunningInfoFile"),
    Call("cloneGroupOffset -s done -d cloned -t Orders", "clone group offset success"),
    Call(f"producer {_B}", "producer group (shop)"),
    Call("clusterList", "broker-a", same=False),
    Call("clusterList -m", "#InTotalToday", same=False),
    Call("topicList", "Orders", same=False),
    Call("topicList -c", "live", same=False),
    Call("updateKvConfig -s ns1 -k key1 -v value1", "create or update kv config to namespace success"),
    Call("deleteKvConfig -s ns1 -k key1", "delete kv config from namespace success"),
    Call("wipeWritePerm -b broker-a", "OK", same=False),
    Call("addWritePerm -b broker-a", "OK", same=False),
    Call("resetOffsetByTime -g done -t Orders -s 0", "broker-a"),
    Call("skipAccumulatedMessage -g done -t Orders", "broker-a"),
    Call("updateOrderConf -t Ordered -v broker-a:2 -m put", "update orderConf success"),
    Call("updateOrderConf -t Ordered -m get", "orderConf=[broker-a:2]"),
    Call(f"cleanExpiredCQ {_B}", "success"),
    Call(f"deleteExpiredCommitLog {_B}", "success"),
    Call(f"cleanUnusedTopic {_B}", "success"),
    Call("statsAll -t Orders", "#OutMsg24Hour", same=False),
    Call("allocateMQ -t Orders -i 10.0.0.1,10.0.0.2", '"queueId":3', same=False),
    Call("checkMsgSendRT -t Orders -a 2 -s 16", "Avg RT", same=False),
    Call("clusterRT -a 2 -s 16 -i 1", "#successCount", same=False),
    Call("getNamesrvConfig", "kvConfigPath", same=False),
    Call("updateNamesrvConfig -k orderMessageEnable -v true", "update name server config success"),
    Call(f"getBrokerConfig {_B}", "fileReservedTime", same=False),
    Call("getConsumerConfig -g made", "retryMaxTimes"),
    Call("sendMessage -t Orders -p hello -k k99 -c A", "SEND_OK", same=False),
    Call("consumeMessage -t Orders -g looks -c 2", "Consume ok", same=False),
    Call(f"updateStaticTopic {_C} -t Static -qn 4", _NO_CODE.format(513), same=False),
    Call(f"remappingStaticTopic {_C} -t Static", "No topic route to do the remapping", same=False),
    Call(f"exportMetadata {_C} -f {{home}}", "metadata.json success", same=False),
    Call(f"exportConfigs {_C} -f {{home}}", "configs.json success"),
    Call(f"exportMetrics {_C} -f {{home}}", "metrics.json success", same=False),
    Call("exportMetadataInRocksDB -p {home}/none -t topics", "RocksDB path is invalid", names_servers=False),
    Call(f"exportPopRecord {_C} -d true", "Export broker records", same=False),
    Call(f"haStatus {_B}", "#MasterCommitLogMaxOffset", same=False),
    Call("dumpCompactionLog -f {home}/none", "not exist", names_servers=False),
    Call(f"getColdDataFlowCtrInfo {_B}", _NO_CODE.format(2003), same=False),
    Call(f"updateColdDataFlowCtrGroupConfig {_B} -g made -v 4096", _NO_CODE.format(2001), same=False),
    Call(f"removeColdDataFlowCtrGroupConfig {_B} -g made", _NO_CODE.format(2002), same=False),
    Call(f"setCommitLogReadAheadMode {_B} -m 1", _NO_CODE.format(2004), same=False),
    Call(f"rocksDBConfigToJson -t topics {_B}", "Invalid args"),
    Call(f"checkRocksdbCqWriteProgress {_C} -t Orders", _NO_CODE.format(354), same=False),
    Call(f"switchTimerEngine {_B} -e F", _NO_CODE.format(5001), same=False),
    Call(f"getBrokerLiteInfo {_B}", "#Max LMQ", same=False),
    Call("getParentTopicInfo -p Orders", "[broker-a] error.", is_refused=True),
    Call("getLiteTopicInfo -p Orders -l l1", "[broker-a] error.", is_refused=True),
    Call("getLiteClientInfo -p Orders -g made -c c1", "[broker-a] error.", is_refused=True),
    Call("getLiteGroupInfo -p Orders -g made", "[broker-a] error.", is_refused=True),
    Call("triggerLiteDispatch -p Orders -g made", "error", is_refused=True),
    Call(f"deleteSubGroup {_C} -g listed -r true", "delete subscription group [listed]"),
    Call(f"deleteTopic {_C} -t Listed", "delete topic [Listed] from NameServer success"),
    Call("startMonitoring", "", same=False),
)

WITH_USERS = (
    Call(f"createUser {_C} -u u1 -p secret-u1", "create user to"),
    Call(f"updateUser {_C} -u u1 -s disable", "update user to"),
    Call(f"getUser {_C} -u u1", "disable"),
    Call(f"listUser {_C}", "u1"),
    Call("copyUser -f {broker} -t {broker} -u u1", "copy user of u1"),
    Call(f"createAcl {_C} -s User:u1 -r Topic:* -a Pub -d Allow", "create acl to"),
    Call(f"updateAcl {_C} -s User:u1 -r Topic:* -a Pub,Sub -d Allow", "update acl to"),
    Call(f"getAcl {_C} -s User:u1", "[Pub, Sub]"),
    Call(f"listAcl {_C}", "Topic:*"),
    Call("copyAcl -f {broker} -t {broker} -s User:u1", "copy acl of User:u1"),
    Call(f"deleteAcl {_C} -s User:u1", "delete acl to"),
    Call(f"deleteUser {_C} -u u1", "delete user to"),
)

IN_GROUPS = (
    Call("getControllerMetaData -a {namesrv}", "#ControllerLeaderAddress"),
    Call("getControllerConfig -a {namesrv}", "enableControllerInNamesrv"),
    Call(
        "updateControllerConfig -a {namesrv} -k enableElectUncleanMaster -v false", "update controller config success"
    ),
    Call("getSyncStateSet -a {namesrv} -b broker-a", "#SyncStateSetNums\t2"),
    Call("getBrokerEpoch -b broker-a", "EpochEntry{epoch=1"),
    Call(f"electMaster -a {{namesrv}} -b 2 -bn broker-a {_C}", "#MasterEpoch\t2"),
    Call(f"cleanBrokerMetadata -a {{namesrv}} -bn broker-a -b 2 {_C}", "broker 2 is alive", is_refused=True),
)
