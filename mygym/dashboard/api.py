"""REST API: runs, jobs, schema and registry; a thin layer over the functions of the Python API."""

from __future__ import annotations

import asyncio
import html
import re
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi import Path as PathParameter
from fastapi.concurrency import run_in_threadpool
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, StreamingResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import to_json

from mygym.dashboard import helper as heavy
from mygym.dashboard.service import (
    Service,
    command_line,
    files_of,
    messages_of,
    run_id,
    stages_of,
    videos_of,
    yaml_of,
)
from mygym.errors import ConfigError, MygymError, bad_value, did_you_mean
from mygym.registry import REGISTRIES
from mygym.reporting.doctor import diagnose
from mygym.reporting.run_logs import read_logs
from mygym.training import directory

Priority = Annotated[int, Query(ge=-100, le=100, description="jobs with a higher number begin first")]

MESHES = "meshes"
"""Folder of the meshes of the page World, in that of the jobs."""

METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]

STREAM_PERIOD = 1.0
"""s between two looks at the log of a run that is streamed."""


class Resume(BaseModel):
    """Body of `POST /api/runs/{id}/resume`."""

    model_config = ConfigDict(extra="forbid")
    steps: int | None = Field(None, ge=1, description="env steps of the longer run")


class Evaluate(BaseModel):
    """Body of `POST /api/runs/{id}/evaluate`."""

    model_config = ConfigDict(extra="forbid")
    episodes: int = Field(100, ge=1, le=10_000)


def make_router(service: Service) -> APIRouter:
    """Return the routes of the API."""
    router = APIRouter(prefix="/api", dependencies=[Depends(_check_query)])
    index, jobs = service.index, service.jobs

    @router.get("/runs", summary="List runs and waiting jobs; query parameters filter as runs --where: ?algo=sac")
    def list_runs(request: Request) -> list[dict[str, Any]]:
        return service.listing(request.query_params)

    @router.post("/runs", status_code=201, summary="Check a config and queue its training")
    @router.post("/start_training", status_code=201, summary="The same as POST /api/runs")
    async def start_run(config: dict[str, Any], priority: Priority = 0) -> dict[str, Any]:
        return service.waiting(await service.train(config, priority))

    @router.post("/check", summary="Check a config; return it as command line, YAML, and values with their origins")
    async def check(config: dict[str, Any]) -> dict[str, Any]:
        resolved = await service.examine(config)
        rows = [{"key": key, "value": value, "origin": origin} for key, value, origin in resolved.rows()]
        return {"command": command_line(config, service.logdir), "yaml": yaml_of(config), "values": rows}

    @router.get("/runs/{identifier}", summary="A run, or a job that waits: status, config, stages")
    async def get_run(identifier: str) -> dict[str, Any]:
        job = service.job(identifier)
        if job is not None and job.run is None:
            return service.waiting(job)
        entry = service.entry(identifier)
        row = next(row for row in service.listing() if row["id"] == entry.id)
        return {**row, "config": directory.saved_config(entry.path), "stages": stages_of(entry.path)}

    @router.get("/runs/{identifier}/progress", summary="Lines of progress.jsonl after some env steps")
    def progress(identifier: str, after: int = -1) -> list[dict[str, Any]]:
        lines = [(line.get("steps", 0), line) for line in index.progress(service.entry(identifier).path)]
        return [line for steps, line in lines if isinstance(steps, int | float) and steps > after]

    @router.get("/runs/{identifier}/events", summary="The same lines as server-sent events, until the run ends")
    def events(identifier: str) -> StreamingResponse:
        return StreamingResponse(_events(service, service.entry(identifier).id), media_type="text/event-stream")

    @router.get("/runs/{identifier}/videos", summary="Names of the videos of a run, for /files")
    def videos(identifier: str) -> list[str]:
        return videos_of(service.entry(identifier).path)

    @router.get("/runs/{identifier}/files", summary="Names of the files of a run")
    def files(identifier: str) -> list[str]:
        return list(files_of(service.entry(identifier).path))

    @router.get("/runs/{identifier}/files/{name:path}", summary="A file of a run")
    def file(identifier: str, name: str) -> FileResponse:
        path = files_of(service.entry(identifier).path).get(name)
        if path is None:
            raise MygymError(f"file: {name!r} is no file of the run; allowed: a name of GET /api/runs/ID/files")
        return FileResponse(path)

    @router.get("/runs/{identifier}/doctor", summary="Reasons why a run does not learn")
    def doctor(identifier: str) -> list[dict[str, Any]]:
        findings = diagnose(read_logs(str(service.entry(identifier).path)))
        return [{"finding": name, **asdict(finding)} for name, finding in findings.items()]

    @router.post("/runs/{identifier}/stop", status_code=202, summary="Stop with a checkpoint, or leave the queue")
    async def stop(identifier: str) -> dict[str, str]:
        job = service.job(identifier)
        if job is not None:
            jobs.stop(job)
        else:
            await run_in_threadpool(jobs.stop_run, service.entry(identifier).path)
        return {"status": "stopping"}

    @router.post("/runs/{identifier}/resume", status_code=201, summary="Queue the rest of a stopped run")
    async def resume(identifier: str, body: Resume | None = None, priority: Priority = 0) -> dict[str, Any]:
        steps = body.steps if body else None
        entry = await run_in_threadpool(service.entry, identifier)
        return service.waiting(await service.resume(entry.path, steps, priority))

    @router.post("/runs/{identifier}/evaluate", status_code=201, summary="Queue fresh episodes; see /api/jobs/ID")
    async def evaluate(identifier: str, body: Evaluate | None = None, priority: Priority = 0) -> dict[str, Any]:
        episodes = (body or Evaluate()).episodes
        entry = await run_in_threadpool(service.entry, identifier)
        return service.waiting(await service.evaluate(entry.path, episodes, priority))

    @router.get("/jobs", summary="Newest jobs of the queue")
    def list_jobs() -> list[dict[str, Any]]:
        return [_job(service, job.id) for job in jobs.queue.newest()]

    @router.get("/jobs/{number}", summary="A job: state, exit code, end of its output, result of an evaluation")
    def get_job(number: Annotated[int, PathParameter(ge=0, lt=2**60)]) -> dict[str, Any]:
        return _job(service, number)

    @router.get("/schema", summary="JSON schema of configs")
    async def schema() -> dict[str, Any]:
        return await service.helper.call(heavy.schema)

    @router.get("/registry/{kind}", summary="Registered components of a kind; the user's are read again each time")
    async def components(kind: str) -> list[dict[str, Any]]:
        return await service.helper.call(heavy.components, kind)

    @router.get("/registry", summary="Kinds of components")
    def kinds() -> list[str]:
        return list(REGISTRIES)

    @router.get("/parameters/{algo}", summary="Hyperparameters of an algorithm: type, range, default, help")
    async def parameters(algo: str, framework: str | None = None) -> list[dict[str, Any]]:
        return await service.helper.call(heavy.parameters, "algorithm", algo, framework)

    @router.get("/meshes/{name}", include_in_schema=False)
    def mesh(name: str) -> FileResponse:
        path = jobs.folder / MESHES / f"{name}.stl"
        if not re.fullmatch(r"[0-9a-f]{16}", name) or not path.is_file():
            raise MygymError("file: a mesh that does not exist; allowed: one of the page World")
        return FileResponse(path, headers={"Cache-Control": "max-age=86400"})

    @router.api_route("/{path:path}", methods=METHODS, include_in_schema=False)
    def unknown(request: Request, path: str) -> JSONResponse:
        return _unknown(request, [route for route in router.routes if isinstance(route, APIRoute)])

    return router


def add_api(app: FastAPI, service: Service) -> None:
    """Add the routes, the answers to mistakes, and the page of the API, which needs no network."""
    app.include_router(make_router(service))

    @app.exception_handler(MygymError)
    async def refuse(request: Request, error: MygymError) -> JSONResponse:
        text = str(error) if request.path_params else ""  # without any, the error is that of a config
        missing = text.startswith(("run: ", "job: ", "file: "))
        status = 404 if missing else 409 if text.startswith(("stop: ", "resume: ")) else 422
        errors = [{"field": message.partition(": ")[0], "message": message} for message in messages_of(error)]
        return JSONResponse({"errors": errors}, status)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [
            {"field": ".".join(where), "message": f"{where[-1]}: {detail['msg']}"}
            for detail in error.errors()
            for where in [_place(detail)]
        ]
        return JSONResponse({"errors": errors}, 422)

    @app.get("/api", include_in_schema=False)
    def page() -> HTMLResponse:
        return HTMLResponse(_page(app.openapi()))


def _check_query(request: Request) -> None:
    """Refuse query parameters that the operation does not take; FastAPI would ignore `?prio=5`.

    Raises:
        ConfigError: A parameter is unknown.
    """
    route: APIRoute = request.scope["route"]
    if route.dependant.request_param_name is not None:  # the operation reads and checks the query itself
        return
    known = [parameter.alias for parameter in route.dependant.query_params]
    for name, value in request.query_params.items():
        if name not in known:
            key = f"?{name}"
            raise ConfigError(
                bad_value(key, value, known or "no query parameters", "is no parameter of this operation")
            )


def _place(detail: Mapping[str, Any]) -> list[str]:
    """Return the keys of a mistake in a body; `body` for the whole, also for text that is no JSON, with its offset."""
    inside = () if detail["type"] == "json_invalid" else detail["loc"][1:]
    return list(map(str, inside)) or ["body"]


async def _events(service: Service, identifier: str) -> AsyncIterator[str]:
    sent = 0
    while True:
        entry = service.index.get(identifier)
        running = entry.record.status == "running"
        lines = service.index.progress(entry.path)
        for line in lines[sent:]:
            yield f"data: {to_json(line, inf_nan_mode='null').decode()}\n\n"
        sent = len(lines)
        if not running:
            yield "event: end\ndata: {}\n\n"
            return
        await asyncio.sleep(STREAM_PERIOD)


def _unknown(request: Request, routes: Sequence[APIRoute]) -> JSONResponse:
    """Return the answer to an operation that does not exist: 405 for another method of a path, else 404."""
    path = request.url.path
    methods = {method for route in routes[:-1] if route.path_regex.match(path) for method in route.methods or ()}
    if methods:
        message = bad_value("method", request.method, sorted(methods), f"is not a method of {path}")
        return JSONResponse({"errors": [{"field": "method", "message": message}]}, 405)
    known = dict.fromkeys(route.path for route in routes if route.include_in_schema)
    message = bad_value("path", path, ", ".join(known), "is not an operation; /api has the list")
    message += did_you_mean(path, filter(None, (_filled(operation, path) for operation in known)))
    return JSONResponse({"errors": [{"field": "path", "message": message}]}, 404)


def _filled(operation: str, path: str) -> str:
    """Return the path of an operation with words of `path` for its parameters; empty if `path` does not have them."""
    words, given = operation.split("/"), path.split("/")
    if "{" not in operation:
        return operation
    if len(words) != len(given):
        return ""
    return "/".join(b if a.startswith("{") else a for a, b in zip(words, given, strict=True))


def _job(service: Service, number: int) -> dict[str, Any]:
    job = service.jobs.queue.get(number)
    content = service.jobs.as_json(job)
    inside = job.run is not None and Path(job.run).is_relative_to(service.logdir)
    return {**content, "run": run_id(service.logdir, Path(str(job.run))) if inside else None}


def _page(schema: Mapping[str, Any]) -> str:
    """Return a page with the operations of an OpenAPI schema; it loads nothing."""
    rows = [
        f"<tr><td><b class={method}>{method.upper()}</b><td><code>{html.escape(path)}</code>"
        f"<td>{html.escape(operation.get('summary', ''))}<td>{html.escape(_arguments(operation))}"
        for path, operations in schema["paths"].items()
        for method, operation in operations.items()
        if path.startswith("/api")
    ]
    return f"""<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width">
<title>mygym: API</title><style>:root{{color-scheme:light dark}}body{{font:15px system-ui;margin:2em auto;
max-width:75em;padding:0 1em}}
td{{padding:.35em .8em .35em 0;vertical-align:top}}.post{{color:#c2410c}}.get{{color:#0369a1}}
pre{{overflow:auto;padding:1em;background:#8882}}
@media(max-width:40em){{td{{display:block;padding:.1em 0}}td:first-child{{padding-top:1em}}}}
</style><p><a href="/">mygym</a><h1>API</h1>
<p>Clients send <code>Authorization: Bearer TOKEN</code>. The schema: <a href="/openapi.json">openapi.json</a></p>
<pre>curl -H "Authorization: Bearer $TOKEN" -H "Content-Type: application/json" \\
     -d '{{"algo": "sac", "task": "reach", "strategy": "standard"}}' http://127.0.0.1:8080/api/start_training</pre>
<table>{"".join(rows)}</table>"""


def _arguments(operation: Mapping[str, Any]) -> str:
    return ", ".join(parameter["name"] for parameter in operation.get("parameters", ()) if parameter["in"] == "query")
