"""The messages and methods of `apache.rocketmq.v2`, as a table.

Owns        names, numbers, types of fields; kinds of methods. As of protos 2.1.2 (RocketMQ 5.5).
Must not know   protobuf (pool.py), values of enums (enums.py).

A line is `message = name:type ...`. The place of a field is its number: the first one is 1. Behind the type:

    []        a list                ?         may be absent (proto3 optional)
    |word     a member of the oneof `word`
    {}        a map from text to this type

A method is `name = request response`, with `[]` for a stream.
"""

from __future__ import annotations

__all__ = ["MESSAGES", "METHODS"]

MESSAGES = """
FilterExpression = type:FilterType expression:string
RetryPolicy = max_attempts:int32 exponential_backoff:ExponentialBackoff|strategy
    customized_backoff:CustomizedBackoff|strategy
ExponentialBackoff = initial:Duration max:Duration multiplier:float
CustomizedBackoff = next:Duration[]
Resource = resource_namespace:string name:string
SubscriptionEntry = topic:Resource expression:FilterExpression
Address = host:string port:int32
Endpoints = scheme:AddressScheme addresses:Address[]
Broker = name:string id:int32 endpoints:Endpoints
MessageQueue = topic:Resource id:int32 permission:Permission broker:Broker accept_message_types:MessageType[]
Digest = type:DigestType checksum:string
SystemProperties = tag:string? keys:string[] message_id:string body_digest:Digest body_encoding:Encoding
    message_type:MessageType born_timestamp:Timestamp born_host:string store_timestamp:Timestamp? store_host:string
    delivery_timestamp:Timestamp? receipt_handle:string? queue_id:int32 queue_offset:int64?
    invisible_duration:Duration? delivery_attempt:int32? message_group:string? trace_context:string?
    orphaned_transaction_recovery_duration:Duration? dead_letter_queue:DeadLetterQueue? lite_topic:string?
    priority:int32?
DeadLetterQueue = topic:string message_id:string
Message = topic:Resource user_properties:string{} system_properties:SystemProperties body:bytes
Assignment = message_queue:MessageQueue
Status = code:Code message:string
UA = language:Language version:string platform:string hostname:string
Settings = client_type:ClientType? access_point:Endpoints? backoff_policy:RetryPolicy? request_timeout:Duration?
    publishing:Publishing|pub_sub subscription:Subscription|pub_sub user_agent:UA metric:Metric
Publishing = topics:Resource[] max_body_size:int32 validate_message_type:bool
Subscription = group:Resource? subscriptions:SubscriptionEntry[] fifo:bool? receive_batch_size:int32?
    long_polling_timeout:Duration? lite_subscription_quota:int32? max_lite_topic_size:int32?
Metric = on:bool endpoints:Endpoints?
OffsetOption = policy:OffsetOption.Policy|offset_type offset:int64|offset_type tail_n:int64|offset_type
    timestamp:int64|offset_type
QueryRouteRequest = topic:Resource endpoints:Endpoints
QueryRouteResponse = status:Status message_queues:MessageQueue[]
SendMessageRequest = messages:Message[]
SendResultEntry = status:Status message_id:string transaction_id:string offset:int64 recall_handle:string
SendMessageResponse = status:Status entries:SendResultEntry[]
QueryAssignmentRequest = topic:Resource group:Resource endpoints:Endpoints
QueryAssignmentResponse = status:Status assignments:Assignment[]
ReceiveMessageRequest = group:Resource message_queue:MessageQueue filter_expression:FilterExpression batch_size:int32
    invisible_duration:Duration? auto_renew:bool long_polling_timeout:Duration? attempt_id:string?
ReceiveMessageResponse = status:Status|content message:Message|content delivery_timestamp:Timestamp|content
AckMessageEntry = message_id:string receipt_handle:string lite_topic:string?
AckMessageRequest = group:Resource topic:Resource entries:AckMessageEntry[]
AckMessageResultEntry = message_id:string receipt_handle:string status:Status
AckMessageResponse = status:Status entries:AckMessageResultEntry[]
ForwardMessageToDeadLetterQueueRequest = group:Resource topic:Resource receipt_handle:string message_id:string
    delivery_attempt:int32 max_delivery_attempts:int32 lite_topic:string?
ForwardMessageToDeadLetterQueueResponse = status:Status
HeartbeatRequest = group:Resource? client_type:ClientType
HeartbeatResponse = status:Status
EndTransactionRequest = topic:Resource message_id:string transaction_id:string resolution:TransactionResolution
    source:TransactionSource trace_context:string
EndTransactionResponse = status:Status
PrintThreadStackTraceCommand = nonce:string
ReconnectEndpointsCommand = nonce:string
ThreadStackTrace = nonce:string thread_stack_trace:string?
VerifyMessageCommand = nonce:string message:Message
VerifyMessageResult = nonce:string
RecoverOrphanedTransactionCommand = message:Message transaction_id:string
NotifyUnsubscribeLiteCommand = lite_topic:string
TelemetryCommand = status:Status? settings:Settings|command thread_stack_trace:ThreadStackTrace|command
    verify_message_result:VerifyMessageResult|command
    recover_orphaned_transaction_command:RecoverOrphanedTransactionCommand|command
    print_thread_stack_trace_command:PrintThreadStackTraceCommand|command
    verify_message_command:VerifyMessageCommand|command reconnect_endpoints_command:ReconnectEndpointsCommand|command
    notify_unsubscribe_lite_command:NotifyUnsubscribeLiteCommand|command
NotifyClientTerminationRequest = group:Resource?
NotifyClientTerminationResponse = status:Status
ChangeInvisibleDurationRequest = group:Resource topic:Resource receipt_handle:string invisible_duration:Duration
    message_id:string lite_topic:string? suspend:bool?
ChangeInvisibleDurationResponse = status:Status receipt_handle:string
PullMessageRequest = group:Resource message_queue:MessageQueue offset:int64 batch_size:int32
    filter_expression:FilterExpression long_polling_timeout:Duration
PullMessageResponse = status:Status|content message:Message|content next_offset:int64|content
UpdateOffsetRequest = group:Resource message_queue:MessageQueue offset:int64
UpdateOffsetResponse = status:Status
GetOffsetRequest = group:Resource message_queue:MessageQueue
GetOffsetResponse = status:Status offset:int64
QueryOffsetRequest = message_queue:MessageQueue query_offset_policy:QueryOffsetPolicy timestamp:Timestamp?
QueryOffsetResponse = status:Status offset:int64
RecallMessageRequest = topic:Resource recall_handle:string
RecallMessageResponse = status:Status message_id:string
SyncLiteSubscriptionRequest = action:LiteSubscriptionAction topic:Resource group:Resource lite_topic_set:string[]
    version:int64? offset_option:OffsetOption?
SyncLiteSubscriptionResponse = status:Status
"""

METHODS = """
QueryRoute = QueryRouteRequest QueryRouteResponse
Heartbeat = HeartbeatRequest HeartbeatResponse
SendMessage = SendMessageRequest SendMessageResponse
QueryAssignment = QueryAssignmentRequest QueryAssignmentResponse
ReceiveMessage = ReceiveMessageRequest ReceiveMessageResponse[]
AckMessage = AckMessageRequest AckMessageResponse
ForwardMessageToDeadLetterQueue = ForwardMessageToDeadLetterQueueRequest ForwardMessageToDeadLetterQueueResponse
PullMessage = PullMessageRequest PullMessageResponse[]
UpdateOffset = UpdateOffsetRequest UpdateOffsetResponse
GetOffset = GetOffsetRequest GetOffsetResponse
QueryOffset = QueryOffsetRequest QueryOffsetResponse
EndTransaction = EndTransactionRequest EndTransactionResponse
Telemetry = TelemetryCommand[] TelemetryCommand[]
NotifyClientTermination = NotifyClientTerminationRequest NotifyClientTerminationResponse
ChangeInvisibleDuration = ChangeInvisibleDurationRequest ChangeInvisibleDurationResponse
RecallMessage = RecallMessageRequest RecallMessageResponse
SyncLiteSubscription = SyncLiteSubscriptionRequest SyncLiteSubscriptionResponse
"""
