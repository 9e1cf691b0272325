"""Keys of Apache's broker.conf that this broker does not have a setting for.

Owns        which of them are accepted without effect, and which are refused because they promise a feature.
Must not know   the settings of this broker (config.py).

Users' files hold these keys. A key that is in neither list is refused as unknown, with its name.
"""

from __future__ import annotations

__all__ = ["NOT_SUPPORTED", "WITHOUT_EFFECT"]

NOT_SUPPORTED: dict[str, tuple[str, ...]] = {
    "enabledAppendPropCRC": ("false",),
    "forceVerifyPropCRC": ("false",),
    "inBrokerContainer": ("false",),
    "rocksdbCQDoubleWriteEnable": ("false",),
    "readOnlyCommitLogStorePaths": ("",),
    "enableDLegerCommitLog": ("false",),
    "enableSlaveActingMaster": ("false",),
    "duplicationEnable": ("false",),
    "aclEnable": ("false",),
    "migrateAuthFromV1Enabled": ("false",),
    "authenticationWhitelist": ("",),
    "authorizationWhitelist": ("",),
    "filterSupportRetry": ("false",),
    "enableLmq": ("false",),
    "popConsumerKVServiceEnable": ("false",),
    "enableMultiDispatch": ("false",),
    "enableConsumeQueueExt": ("false",),
    "enableCompaction": ("true", "false"),
    "enableRocksDBStore": ("false",),
    "storeType": ("default",),
    "useStaticSubscription": ("false",),
    "rejectPullConsumerEnable": ("false",),
    "disableConsumeIfConsumerReadSlowly": ("false",),
    "coldDataFlowControlEnable": ("false",),
    "fetchNameSrvAddrByDnsLookup": ("false",),
    "fetchNamesrvAddrByAddressServer": ("false",),
    "messageStorePlugIn": ("",),
    "configManagerVersion": ("v1",),
}
"""Keys that promise a role, safety or a filter that this broker lacks, each with the values that ask for nothing."""

_NAMES = """
rocketmqHome brokerConfigPath configBlackList sendMessageThreadPoolNums
putMessageFutureThreadPoolNums pullMessageThreadPoolNums litePullMessageThreadPoolNums ackMessageThreadPoolNums
processReplyMessageThreadPoolNums queryMessageThreadPoolNums adminBrokerThreadPoolNums
clientManageThreadPoolNums consumerManageThreadPoolNums loadBalanceProcessorThreadPoolNums
heartbeatThreadPoolNums recoverThreadPoolNums endTransactionThreadPoolNums recoverConcurrently
putThreadPoolQueueCapacity litePullThreadPoolQueueCapacity ackThreadPoolQueueCapacity
queryThreadPoolQueueCapacity clientManagerThreadPoolQueueCapacity
consumerManagerThreadPoolQueueCapacity heartbeatThreadPoolQueueCapacity endTransactionPoolQueueCapacity
adminBrokerThreadPoolQueueCapacity loadBalanceThreadPoolQueueCapacity flushConsumerOffsetHistoryInterval
flushDelayOffsetInterval waitTimeMillsInLitePullQueue waitTimeMillsInTransactionQueue waitTimeMillsInAckQueue
highSpeedMode commercialBaseCount commercialSizePerMsg accountStatsEnable accountStatsPrintZeroValues
maxStatsIdleTimeInMinutes transferMsgByHeap sendHeartbeatTimeoutMillis
consumerFallbehindThreshold enableCalcFilterBitMap expectConsumerNumUseFilter maxErrorRateOfBloomFilter
filterDataCleanTimeSpan compressedRegister forceRegister updateNameServerAddrPeriod
brokerNotActiveTimeoutMillis enableNetWorkFlowControl enableBroadcastOffsetStore broadcastOffsetExpireSecond
broadcastOffsetExpireMaxSecond realTimeNotifyConsumerChange syncBrokerMemberGroupPeriod
loadBalancePollNameServerInterval cleanOfflineBrokerInterval serverLoadBalancerEnable defaultMessageRequestMode
defaultPopShareQueueNum transactionMetricFlushInterval enableDetailStat
autoDeleteUnusedStats isolateLogEnable forwardTimeout enableRemoteEscape skipPreOnline asyncSendEnable
useServerSideResetOffset compatibleWithOldNameSrv validateSystemTopicWhenUpdateTopic
channelExpiredTimeout subscriptionExpiredTimeout estimateAccumulation coldCtrStrategyEnable
usePIDColdCtrStrategy cgColdReadThreshold globalColdReadThreshold fetchNamesrvAddrInterval
enableMixedMessageType enableSplitRegistration enableSplitMetadata splitMetadataSize
splitRegistrationSize enableFastChannelEventProcess printChannelGroups printChannelGroupsMinNum
clearRetryTopicWhenDeleteTopic enableLmqStats
enableRegisterProducer enableCreateSysGroup
metricsInDelta enableRemotingMetrics enableMessageStoreMetrics
enablePopMetrics enableConnectionMetrics enableTransactionMetrics enableStatsMetrics enableRequestMetrics
enableLagAndDlqMetrics popPollingMapSize popPollingMapExpireTimeSeconds
reviveQueueNum reviveMaxSlow reviveScanTime enableSkipLongAwaitingAck reviveAckWaitMs
enablePopLog enablePopBufferMerge popCkStayBufferTime popCkStayBufferTimeOut popCkMaxBufferSize
popCkOffsetMaxQueueSize enablePopBatchAck popLongPollingForceNotifyInterval enableNotifyBeforePopCalculateLag
enableNotifyAfterPopOrderLockRelease initPopOffsetByCheckMsgInMem retrieveMessageFromPopRetryTopicV1
popConsumerFSServiceInit popConsumerKVServiceLog
popConsumerKVServiceInit popReviveMaxReturnSizePerRead popReviveMaxAttemptTimes
popInflightMessageThreshold enablePopMessageThreshold
skipWhenCKRePutReachMaxTimes appendAckAsync appendCkAsync serverWorkerThreads serverCallbackExecutorThreads
serverSelectorThreads serverOnewaySemaphoreValue serverAsyncSemaphoreValue serverChannelMaxIdleTimeSeconds
serverSocketSndBufSize serverSocketRcvBufSize writeBufferHighWaterMark writeBufferLowWaterMark
serverSocketBacklog serverPooledByteBufAllocatorEnable useEpollNativeSelector enableShutdownGracefully
shutdownWaitTimeSeconds  clientWorkerThreads clientCallbackExecutorThreads clientOnewaySemaphoreValue
clientAsyncSemaphoreValue connectTimeoutMillis channelNotActiveInterval clientChannelMaxIdleTimeSeconds
clientSocketSndBufSize clientSocketRcvBufSize
timerFlushIntervalMs timerGetMessageThreadNum timerPutMessageThreadNum timerEnableDisruptor
timerEnableCheckMetrics timerInterceptDelayLevel timerWarmEnable timerStopEnqueue
timerStopDequeue timerCongestNumEachSlot timerMetricSmallThreshold timerProgressLogIntervalMs
timerSkipUnknownError timerCheckMetricsWhen
fetchControllerAddrByDnsLookup checkSyncStateSetPeriod syncControllerMetadataPeriod
rocksdbCompressionType compactionMappedFileSize
compactionCqMappedFileSize compactionScheduleInternal maxOffsetMapSize compactionThreadNum
mappedFileSizeConsumeQueueExt bitMapLengthConsumeQueueExt travelCqFileNumWhenGetMessage
correctLogicMinOffsetSleepInterval correctLogicMinOffsetForceInterval storePathDLedgerCommitLog
storePathEpochFile storePathBrokerIdentity defaultQueryMaxNum
mapperFileSizeBatchConsumeQueue dLegerGroup dLegerPeers dLegerSelfId preferredLeaderId enableBatchPush
enableScheduleMessageStats searchBcqByCacheEnable enableAutoInSyncReplicas
syncMasterFlushOffsetWhenStartup maxChecksumRange
replicasPerDiskPartition logicalDiskSpaceCleanForciblyThreshold disappearTimeAfterStart
maxLmqConsumeQueueNum enableScheduleAsyncDeliver scheduleAsyncDeliverMaxPendingLimit
scheduleAsyncDeliverMaxResendNum2Blocked asyncLearner timerEnableRetryUntilSuccess maxConsumeQueueScan
sampleCountThreshold coldDataScanEnable timerColdDataCheckIntervalMs sampleSteps accessMessageInMemoryHotRatio
realTimePersistRocksDBConfig statRocksDBCQIntervalSec cleanRocksDBDirtyCQIntervalMin memTableFlushIntervalMs
enableRocksDBLog bottomMostCompressionTypeForConsumeQueueStore rocksdbFlushWalFrequency
rocksdbWalFileRollingThreshold serverNettyWorkerGroupEnable clientCloseSocketIfTimeout
clientPooledByteBufAllocatorEnable disableCallbackExecutor disableNettyWorkerGroup
maxReconnectIntervalTimeSeconds enableReconnectForGoAway socksProxyConfig scanAvailableNameSrv configName
clusterName authConfigPath authenticationProvider authenticationMetadataProvider authenticationStrategy
authorizationProvider
authorizationMetadataProvider authorizationStrategy userCacheMaxNum
userCacheExpiredSecond userCacheRefreshSecond aclCacheMaxNum aclCacheExpiredSecond aclCacheRefreshSecond
statefulAuthenticationCacheMaxNum statefulAuthenticationCacheExpiredSecond statefulAuthorizationCacheMaxNum
statefulAuthorizationCacheExpiredSecond
"""

WITHOUT_EFFECT = frozenset(_NAMES.split())
"""Keys without effect. They set thread pools and buffers that this broker does not need, statistics, and features whose
switch is refused above or whose requests are refused with a reason. A broker whose broker.conf holds such keys starts,
with one warning that names them."""
