"""The source and the sink of Spark on a cluster that knows users; the secret is in no plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rocketlake.testing.cluster import EmbeddedCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.long
def test_rows_go_out_and_come_back_as_a_user(spark: SparkSession, tmp_path: Path) -> None:
    settings = {"authenticationEnabled": "true", "authorizationEnabled": "true"}
    with EmbeddedCluster(tmp_path / "cluster", settings=settings) as cluster:
        secret = (tmp_path / "cluster" / "admin_password").read_text().strip()
        user = tmp_path / "admin.yml"
        user.write_text(f"accessKey: admin\nsecretKey: {secret}\n")
        options = {"namesrvAddr": cluster.namesrv, "credentialsFile": str(user)}
        rows = spark.range(1000).selectExpr("cast(id as string) as body")
        rows.write.format("rocketmq").mode("append").options(**options, topic="rows").save()
        read = spark.read.format("rocketmq").options(**options, subscribe="rows").load()
        numbers = read.selectExpr("cast(cast(body as string) as int) as n")
        assert numbers.selectExpr("count(*)", "sum(n)").collect()[0] == (1000, 999 * 500)
        plan = read._jdf.queryExecution().toString()
        assert secret not in plan
        stranger = {**options, "credentialsFile": str(tmp_path / "nobody.yml")}
        (tmp_path / "nobody.yml").write_text("accessKey: nobody\nsecretKey: nobodys-secret\n")
        with pytest.raises(Exception, match="nobody is not known"):
            spark.read.format("rocketmq").options(**stranger, subscribe="rows").load().collect()
