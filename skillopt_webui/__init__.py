"""The published name of the dashboard: ``python -m skillopt_webui.app`` is ``skillopt ui``."""
