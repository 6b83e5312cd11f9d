from ltr_harness.monitoring.config import MonitorConfig as MonitorConfig
from ltr_harness.monitoring.result import MonitorResult as MonitorResult
from ltr_harness.monitoring.stages import monitor as monitor
