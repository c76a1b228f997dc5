"""The help of a command, with a section for each group of its options."""

from typing import Any

from typer.core import TyperCommand


class Command(TyperCommand):
    """A command whose options may name their section of the help, as ``rich_help_panel``."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a section for the arguments, one for the options, and one for each group of options."""
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                usual = "Arguments" if parameter.param_type_name == "argument" else "Options"
                title = getattr(parameter, "rich_help_panel", None) or usual
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)
