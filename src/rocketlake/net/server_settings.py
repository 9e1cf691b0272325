"""Settings of every server: who may ask, encrypted connections, metrics; of most: logs.

Owns        names, defaults, ranges and reasons of what broker, name server and proxy have alike.
Must not know   their other settings, which stand below these (broker/config.py, namesrv/config.py, proxy/config.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from rocketlake.auth.admin_access import AdminAccess
from rocketlake.base.logs import LogLevel
from rocketlake.base.settings.config_file import setting
from rocketlake.net.http.settings import (
    LOG_INTERVAL_MS,
    LOOPBACK,
    METRICS_PORT,
    OTLP_INTERVAL_MS,
    OTLP_TIMEOUT_MS,
    SAMPLES_MAX,
    MetricsChoice,
    MetricsExporter,
)
from rocketlake.net.tls.settings import TlsChoice, TlsMode

__all__ = ["AccessSettings", "MonitoredSettings", "ServerSettings"]


@dataclass(frozen=True, slots=True)
class AccessSettings:
    """Whom a server lets in."""

    # Behaviour: who may ask
    connections_of_host_max: int = setting(
        5000, low=1, why="most connections from one host; each port of a server takes 10000"
    )
    authentication_enabled: bool = setting(
        False,
        java="authenticationEnabled",
        why="only users with a name and a secret may ask (docs/how-to/access_control.md)",
    )
    allow_unauthenticated: bool = setting(
        False, why="listen on other addresses than this machine's own although nobody is asked who it is"
    )
    authorization_enabled: bool = setting(
        False, why="the policies of a user say what it may do; needs authenticationEnabled"
    )
    accounts_path: str = setting(
        "",
        why="file of users and policies; empty: accounts.json, of a broker in the folder config of storePathRootDir, of"
        " a name server beside the file of the KV settings, of a proxy in ~/rocketlake-proxy",
    )
    first_user: str = setting(
        "",
        java="initAuthenticationUser",
        secret=True,
        why='super user that is made if it is missing: {"username":"...","password":"..."}; empty: one named admin',
    )
    inner_credentials: str = setting(
        "",
        java="innerClientAuthenticationCredentials",
        secret=True,
        why='what this server signs with: {"accessKey":"...","secretKey":"..."}; empty: as its first super user',
    )

    # Behaviour: encrypted connections
    tls_mode: TlsMode = setting(
        TlsMode.permissive,
        why="enforcing: encrypted connections only, also to others; permissive: plain ones, too; disabled: plain only",
    )
    use_tls: bool = setting(
        False,
        java="useTLS",
        why="connections to other servers of the cluster are encrypted; they are with tlsMode=enforcing",
    )
    tls_config_file: str = setting(
        "",
        why="file of certificates and keys, as Apache's tls.config.file; empty: /etc/rocketmq/tls.properties if it is"
        " there",
    )

    @property
    def tls(self) -> TlsChoice:
        """What the settings say of encrypted connections."""
        return TlsChoice(self.tls_mode, self.use_tls, self.tls_config_file)


@dataclass(frozen=True, slots=True)
class MonitoredSettings(AccessSettings):
    """Whom a server lets in, and to whom it tells its figures."""

    # Behaviour: metrics
    metrics_exporter: MetricsExporter = setting(
        MetricsExporter.DISABLE,
        java="metricsExporterType",
        why="PROM: serve /metrics, /health and /ready by HTTP (docs/how-to/metrics.md); OTLP_GRPC: send metrics to a"
        " receiver of OpenTelemetry's protocol; LOG: write them to the log; DISABLE: none of these",
    )
    metrics_host: str = setting(
        LOOPBACK, java="metricsPromExporterHost", why="address of these pages, which everybody may read who reaches it"
    )
    metrics_port: int = setting(
        METRICS_PORT, java="metricsPromExporterPort", low=0, high=65535, why="their port; 0 takes any free one"
    )
    metrics_otlp_target: str = setting(
        "",
        java="metricsGrpcExporterTarget",
        why="receiver for OTLP_GRPC, host:port or https://host:port; http://host:port is not encrypted",
    )
    metrics_otlp_headers: str = setting(
        "", java="metricsGrpcExporterHeader", secret=True, why="name:value,name:value, sent along with OTLP_GRPC"
    )
    metrics_otlp_timeout_ms: int = setting(
        OTLP_TIMEOUT_MS,
        java="metricGrpcExporterTimeOutInMills",
        low=1,
        why="longest wait for the receiver's answer, after which the export is tried again",
    )
    metrics_otlp_interval_ms: int = setting(
        OTLP_INTERVAL_MS,
        java="metricGrpcExporterIntervalInMills",
        low=100,
        why="pause between two exports by OTLP_GRPC",
    )
    metrics_log_interval_ms: int = setting(
        LOG_INTERVAL_MS, java="metricLoggingExporterIntervalInMills", low=100, why="pause between two exports by LOG"
    )
    metrics_labels: str = setting("", java="metricsLabel", why="name:value,name:value, added to every sample")
    metrics_samples_max: int = setting(
        SAMPLES_MAX,
        java="metricsOtelCardinalityLimit",
        low=1,
        why="most samples of one name; those above are left out, and counted in rocketlake_metrics_dropped_series",
    )

    @property
    def metrics(self) -> MetricsChoice:
        """What the settings say of metrics."""
        return MetricsChoice(
            self.metrics_exporter,
            host=self.metrics_host,
            port=self.metrics_port,
            labels=self.metrics_labels,
            samples_max=self.metrics_samples_max,
            otlp_target=self.metrics_otlp_target,
            otlp_headers=self.metrics_otlp_headers,
            otlp_timeout_ms=self.metrics_otlp_timeout_ms,
            otlp_interval_ms=self.metrics_otlp_interval_ms,
            log_interval_ms=self.metrics_log_interval_ms,
        )


@dataclass(frozen=True, slots=True)
class ServerSettings(MonitoredSettings):
    """What brokers and name servers have besides."""

    # Behaviour: who may ask; logs
    admin_access: AdminAccess = setting(
        AdminAccess.LOOPBACK, why="hosts that may change routes, topics, groups and settings (docs/decisions/0004)"
    )
    certificate_users: bool = setting(
        False, why="a client is the user that its checked certificate names, and need not sign; needs TLS"
    )

    log_level: LogLevel = setting(
        LogLevel.as_started, why="least severe log lines of the process: debug, info, warning, error; may change live"
    )
